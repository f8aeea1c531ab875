package main_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/flow"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore"
)

// The command tells where a saga stands, what holds it up, and the command that frees it, which runs as it is
// printed.
func TestStatusByTheCommand(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	env := []string{"SKALD_STORE=sqlite:" + path}
	start(t, env, "status", "o-1").expect(4)
	start(t, env, "migrate").expect(0)
	start(t, env, "status").expect(2, "accepts 1 arg(s), received 0: skald status KEY")
	start(t, env, "status", "o-1").expect(4, "a tracker or an engine uses this database")
	start(t, env, "status").expect(2)
	start(t, env, "outbox", "write", "--topic", "t", "--type", "order.sent", "--key", "o-9", "--data", "{}",
		"--reason", "x").expect(0)
	start(t, env, "status", "o-9").expect(4, "order.sent",
		"to t is not published: it has waited in the outbox since")
	sagaIsHeld(t, path)

	start(t, env, "parked", "list", "--consumer", "paymnt").expect(4, "it has payment")
	start(t, env, "parked", "release", "--consumer", "paymnt", "--reason", "x").expect(4, "it has payment")
	for _, verb := range []string{"list", "groups", "export"} { // it has none, and is known
		start(t, env, "dead", verb, "--consumer", "payment").expect(0)
		start(t, env, "dead", verb, "--consumer", "paymnt").expect(4, "it has payment")
	}
	p := start(t, env, "status", "o-1", "--explain")
	p.expect(0)
	for _, want := range []string{"order o-1 has been running since",
		"After order.placed it waits for payment.taken or payment.declined", "and it was due at",
		"payment could not handle order.placed (m-1) so far, and retries it automatically. It failed 3 times since", "After the cause is removed: skald parked release"} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("it does not explain %q: %s", want, p.out.String())
		}
	}
	p = start(t, env, "status", "o-1", "--trace-url", "https://traces.example/{trace}/all")
	p.expect(0)
	said, free := strings.Join(strings.Fields(p.out.String()), " "), ""
	for _, want := range []string{"order o-1: running, overdue", "order.placed",
		"waits for payment.taken or payment.declined, since", "remains payment.taken",
		"order.placed m-1 blocks it: parked at payment since", "last error no route to the bank",
		"attempts 3", "to unblock skald parked release",
		"trace https://traces.example/4bf92f3577b34da6a3ce929d0e0e4736/all"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q: %s", want, said)
		}
	}
	for line := range strings.Lines(p.out.String()) {
		if _, command, ok := strings.Cut(line, "skald "); ok {
			free = strings.NewReplacer("'", "", " the cause is gone", " gone", "the cause is gone",
				"gone").Replace(strings.TrimSpace(command))
		}
	}
	start(t, nil, append(strings.Fields(free), "--yes")...).expect(0)
	start(t, env, "status", "o-1", "--json").expect(0)
}

// sagaIsHeld leaves a saga that waits, and the message that holds it up.
func sagaIsHeld(t *testing.T, path string) {
	t.Helper()
	file, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	event := func(name string) skald.Event[string] { return skald.Event[string]{Topic: "orders", Type: name} }
	f, err := flow.New("order", flow.From(event("order.placed")),
		flow.Then(event("order.placed"), event("payment.taken"),
			event("payment.declined")).Within(time.Minute),
		flow.Fail(event("payment.declined")), flow.End(event("payment.taken"), event("payment.declined")))
	if err != nil {
		t.Fatal(err)
	}
	db := sqlitestore.New(file, nil)
	m := skald.Message{ID: "m-1", Source: "/shop", Topic: "orders", Type: "order.placed", Key: []byte("o-1"),
		CorrelationID: "o-1", Time: time.Now().Add(-time.Hour),
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	tx, err := file.BeginTx(t.Context(), nil)
	if err == nil {
		err = flow.NewTracker(f, db, nil).Handle(t.Context(), tx, []skald.Message{m})
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	stood, err := db.Apply(t.Context(),
		store.Effect{Park: &store.Park{Parked: store.Parked{Consumer: "payment", Message: m, Attempts: 3,
			Identity: store.Identity{Source: m.Source, ID: m.ID},
			Last:     store.Failure{At: time.Now(), Why: "no route to the bank"}}}})
	if err != nil || !stood[0] {
		t.Fatal(stood, err)
	}
}

// The command has a saga undone: by the event that the flow declares, once, with its audit.
func TestCompensateByTheCommand(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.db")
	env := []string{"SKALD_STORE=sqlite:" + path}
	start(t, env, "migrate").expect(0)
	start(t, env, "compensate", "o-1", "--reason", "x", "--yes").expect(4, "no tracker of this database has an event of saga")
	file, err := sqlitestore.Open(path)
	must(t, err)
	defer func() { _ = file.Close() }()
	sagaTook(t, file, sqlitestore.New(file, nil))
	start(t, env, "compensate", "o-1", "--flow", "ordr", "--reason", "x", "--yes").expect(4,
		"no saga \"o-1\" of the flow ordr", "there is one of: order")
	start(t, env, "compensate", "--state", "runing", "--reason", "x", "--yes").expect(2,
		"one of running, compensating, done, compensated, not \"runing\"")
	start(t, env, "compensate", "o-1").expect(2, "needs a --reason")
	start(t, env, "compensate", "o-1", "--reason", "x").expect(2, "add --yes")
	dry := start(t, env, "compensate", "o-1", "--dry-run")
	dry.expect(0)
	if !strings.Contains(dry.out.String(), "would be written: refund.asked to orders") {
		t.Errorf("a dry run says %q", dry.out.String())
	}
	start(t, env, "outbox", "status").expect(0)
	for _, want := range []string{"is written: refund.asked to orders",
		"the undo of payment.taken was requested"} {
		p := start(t, env, "compensate", "o-1", "--reason", "fraud", "--by", "ada", "--yes")
		p.expect(0)
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("it says %q, want %q", p.out.String(), want)
		}
	}
	start(t, env, "compensate", "o-1", "--overdue", "--reason", "x").expect(2, "or a KEY")
	many := start(t, env, "compensate", "--state", "compensating", "--reason", "fraud", "--yes")
	many.expect(0)
	if said := many.out.String(); !strings.Contains(said, "compensate: 1 of 1 sagas changed; run compensate-") {
		t.Errorf("of many it says %q", said)
	}
	p := start(t, env, "compensate", "o-1", "--reason", "fraud", "--yes", "--again", "--dry-run", "--json")
	p.expect(0)
	if said := p.out.String(); !strings.Contains(said, `"before":[]`) ||
		!strings.Contains(said, `"type":"refund.asked"`) {
		t.Errorf("as JSON %s", said)
	}
	p = start(t, env, "status", "o-1")
	p.expect(0)
	if said := strings.Join(strings.Fields(p.out.String()), " "); !strings.Contains(said,
		"undo requested payment.taken") || !strings.Contains(said, "order o-1: compensating") {
		t.Errorf("the status says %s", said)
	}
	var rows, audits int
	if err := file.QueryRowContext(t.Context(),
		`SELECT (SELECT count(*) FROM skald_outbox), (SELECT count(*) FROM skald_audit WHERE author = 'ada' AND reason = 'fraud')`).Scan(&rows, &audits); err != nil || rows != 1 || audits != 1 {
		t.Errorf("%d rows in the outbox, %d audits, %v: want one of each", rows, audits, err)
	}
}

// sagaTook leaves a saga of which a payment took effect that can be undone.
func sagaTook(t *testing.T, in *sql.DB, db store.Tracker[*sql.Tx]) {
	t.Helper()
	event := func(name string) skald.Event[string] { return skald.Event[string]{Topic: "orders", Type: name} }
	taken := event("payment.taken")
	f, err := flow.New("order", flow.From(taken), flow.Undo(taken, event("payment.refunded"),
		flow.AskOf(taken, func(m skald.Received[string]) skald.Draft {
			return event("refund.asked").New(m.Value, m.Value)
		})), flow.Then(taken, event("order.done")), flow.End(event("order.done")))
	if err != nil {
		t.Fatal(err)
	}
	tx, err := in.BeginTx(t.Context(), nil)
	if err == nil {
		err = flow.NewTracker(f, db, nil).Handle(t.Context(), tx,
			[]skald.Message{{ID: "m-1", Source: "/shop", Topic: "orders", Type: "payment.taken",
				Key: []byte("o-1"), CorrelationID: "o-1", Time: time.Now(), Data: []byte(`"o-1"`),
				ContentType: "application/json"}})
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
}
