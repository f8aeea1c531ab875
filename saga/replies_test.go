package saga_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

var (
	payIt = skald.Event[int]{Topic: "packing", Type: "pay"}
	paid  = skald.Event[string]{Topic: "packed", Type: "paid"}
)

// parcels returns a saga like packing, but without a transaction. Its last step returns the number of packed
// lines.
func parcels() *saga.Definition[order] { return parcelsUpTo(0) }

func parcelsUpTo(bytes int) *saga.Definition[order] {
	lines := func(r saga.Run[order]) []string { return r.In.Lines }
	line := func(r saga.Run[order]) stand { return stand{r.Key, r.Occurrence} }
	pack := saga.Command("pack", packIt, line,
		saga.Reply(packed, saga.RefusedBy(short, func(s string) string { return s })),
		saga.UndoBy(unpackIt, line, saga.Reply(unpacked)), saga.Each(lines))
	pay := saga.Command("pay", payIt, func(r saga.Run[order]) int { return len(pack.Outputs(r)) },
		saga.Reply(paid), saga.Pivot())
	return saga.New("parcels", &saga.Options[order]{Key: orderID, MaxBytes: bytes}, pack, pay)
}

// desk is a database with sagas. The test acts as their participants.
type desk[TTx any] struct {
	t    *testing.T
	db   store.Driver[TTx]
	now  func() time.Time // nil: time.Now
	d    *saga.Definition[order]
	e    *saga.Engine[TTx]
	seen *metric.ManualReader
	bus  *membroker.Broker
	send *relay.Relay
	get  *inbox.Inbox[tx]
	in   *inbox.Inbox[TTx] // of replies
	has  []skald.Message   // commands, oldest first
	said int
}

func newDesk[TTx any](t *testing.T, db store.Driver[TTx]) *desk[TTx] {
	t.Helper()
	k := &desk[TTx]{t: t, db: db, d: parcels(), bus: membroker.New(nil), seen: metric.NewManualReader()}
	if err := k.bus.MakeTopics(t.Context(), 1, "packing", "packed"); err != nil {
		t.Fatal(err)
	}
	k.e = k.engine(db, k.seen)
	k.send = relay.New(db, k.bus, &relay.Options{Logger: k.log()})
	k.get = inbox.New(memstore.New(nil), k.bus, "packer", &inbox.Options{Logger: k.log()})
	for _, typ := range []string{"pack", "unpack", "pay"} {
		k.get.Handle("packing", typ, func(_ context.Context, _ tx, m skald.Message) error {
			k.has = append(k.has, m)
			return nil
		})
	}
	return k
}

func (k *desk[TTx]) engine(db store.Driver[TTx], seen metric.Reader) *saga.Engine[TTx] {
	k.t.Helper()
	e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: k.log(), Now: k.now,
		MeterProvider: metric.NewMeterProvider(metric.WithReader(seen))}, k.d)
	if err != nil {
		k.t.Fatal(err)
	}
	return e
}

func (k *desk[TTx]) log() *slog.Logger { return slog.New(slog.NewTextHandler(k.t.Output(), nil)) }

// quiet steps until the engine is idle.
func (k *desk[TTx]) quiet(all ...skald.Stepper) {
	k.t.Helper()
	for busy := true; busy; {
		busy = false
		for _, one := range all {
			did, err := one.Step(k.t.Context())
			if err != nil {
				k.t.Fatal(err)
			}
			busy = busy || did
		}
	}
}

// begin starts sagas, and returns their commands.
func (k *desk[TTx]) begin(os ...order) []skald.Message {
	k.t.Helper()
	u, err := k.db.Begin(k.t.Context(), store.Intake{})
	if err != nil {
		k.t.Fatal(err)
	}
	for _, o := range os {
		if _, err := saga.Bind(k.e, k.d).Start(k.t.Context(), u.Tx(), o); err != nil {
			k.t.Fatal(err)
		}
	}
	if err := u.Commit(k.t.Context()); err != nil {
		k.t.Fatal(err)
	}
	return k.goOn()
}

// goOn steps the engine, and returns the new commands.
func (k *desk[TTx]) goOn() []skald.Message {
	k.t.Helper()
	before := len(k.has)
	k.quiet(k.e, k.send, k.get)
	return k.has[before:]
}

// reply returns a reply to a command.
func (k *desk[TTx]) reply(to skald.Message, typ, key string) skald.Message {
	k.said++
	return skald.Message{ID: fmt.Sprint("r-", k.said), Source: "/packer", Topic: "packed", Type: typ,
		Key: []byte(key), CorrelationID: to.CorrelationID,
		CausationID: to.ID, ContentType: "application/json", Data: fmt.Appendf(nil, "%q", typ)}
}

// take applies replies in one batch.
func (k *desk[TTx]) take(ms ...skald.Message) {
	k.t.Helper()
	publish(k.t, k.bus, ms...)
	if k.in == nil {
		k.in = k.inbox(k.e, k.bus, "orders", 100)
	}
	k.quiet(k.in)
}

func (k *desk[TTx]) inbox(e *saga.Engine[TTx], bus *membroker.Broker, consumer string,
	batch int) *inbox.Inbox[TTx] {
	in := inbox.New(k.db, bus, consumer, &inbox.Options{Batch: batch, Workers: 1,
		Dead: inbox.Dead{FreeKey: true}, Timeouts: inbox.Timeouts{Wait: time.Minute},
		Logger: k.log()})
	e.Answers(in)
	return in
}

func publish(t *testing.T, bus *membroker.Broker, ms ...skald.Message) {
	t.Helper()
	if err := bus.Publish(t.Context(), ms).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// saga returns the state of a saga.
func (k *desk[TTx]) saga(key string) store.Saga {
	k.t.Helper()
	ss, err := store.ListSagas(k.t.Context(), k.db, store.SagaQuery{Name: k.d.Name(), Key: key})
	if err != nil || len(ss) != 1 {
		k.t.Fatalf("%d sagas, %v", len(ss), err)
	}
	return ss[0]
}

// onEach runs a test on each database.
func onEach(t *testing.T, memory func(*desk[tx]), sqlite func(*desk[*sql.Tx]), postgres func(*desk[pgx.Tx])) {
	t.Run("memory", func(t *testing.T) { memory(newDesk(t, memstore.New(nil))) })
	t.Run("sqlite", func(t *testing.T) {
		db, err := sqlitestore.Open(filepath.Join(t.TempDir(), "sagas.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		if _, err := sqlitestore.Migrate(t.Context(), db, nil); err != nil {
			t.Fatal(err)
		}
		sqlite(newDesk(t, sqlitestore.New(db, nil)))
	})
	t.Run("postgres", func(t *testing.T) {
		_, db, _ := onPostgres(t)
		postgres(newDesk(t, db))
	})
}

func (k *desk[TTx]) expect(want map[string]int64) {
	k.t.Helper()
	if got := k.e.Health().Replies; !maps.Equal(got, want) {
		k.t.Errorf("the replies: %v, want %v", got, want)
	}
}

// TestRepliesWriteOnce: a batch of replies to one saga writes it once. Each reply is counted by its
// outcome.
func TestRepliesWriteOnce(t *testing.T) {
	onEach(t, repliesWriteOnce[tx], repliesWriteOnce[*sql.Tx], repliesWriteOnce[pgx.Tx])
}

func repliesWriteOnce[TTx any](k *desk[TTx]) {
	o := order{ID: "o"}
	for i := range 50 {
		o.Lines = append(o.Lines, fmt.Sprint("line-", i))
	}
	commands := k.begin(o, order{ID: "other", Lines: []string{"tea"}})
	if len(commands) != 51 {
		k.t.Fatalf("%d commands", len(commands))
	}
	var replies []skald.Message
	for _, c := range commands {
		replies = append(replies, k.reply(c, "packed", "o"))
	}
	foreign, none, unknown := k.reply(commands[0], "packed", "o"), k.reply(commands[0], "packed", "o"),
		k.reply(commands[0], "packed", "o")
	foreign.CorrelationID = "of somebody else"
	none.CorrelationID = "saga:parcels:nobody:id"
	unknown.CausationID = foreign.ID
	replies = append(replies, k.reply(commands[3], "packed", "o"), foreign, none,
		k.reply(commands[4], "short", "o"), unknown)
	before, other := k.saga("o").Version, k.saga("other").Version
	k.take(replies...)
	if is := k.saga("o"); is.Version != before+1 {
		k.t.Errorf("50 replies were %d writes", is.Version-before)
	}
	if is := k.saga("other"); is.Version != other+1 {
		k.t.Errorf("a reply was %d writes", is.Version-other)
	}
	k.expect(map[string]int64{"taken": 51, "repeat": 1, "foreign": 1, "orphan": 2, "late": 1})
	pays := k.goOn()
	if len(pays) != 2 || !slices.ContainsFunc(pays,
		func(m skald.Message) bool { return string(m.Data) == "50" }) {
		k.t.Fatalf("the next commands: %v", pays)
	}
	k.take(k.reply(pays[0], "paid", "o"), k.reply(pays[1], "paid", "o"))
	if a, b := k.saga("o").Status, k.saga("other").Status; a != "done" || b != "done" {
		k.t.Errorf("the sagas are %s and %s", a, b)
	}
}

// TestRepliesEnd: a saga that ends by a reply is counted, and its parent continues.
func TestRepliesEnd(t *testing.T) {
	onEach(t, repliesEnd[tx], repliesEnd[*sql.Tx], repliesEnd[pgx.Tx])
}

func repliesEnd[TTx any](k *desk[TTx]) {
	inner := k.d
	k.d = saga.New("outer", &saga.Options[order]{Key: orderID},
		saga.Child("parcels", inner, func(r saga.Run[order]) order { return r.In }, saga.Pivot()))
	k.e = k.engine(k.db, metric.NewManualReader())
	for commands := k.begin(order{ID: "o", Lines: []string{"tea"}}); len(commands) > 0; commands = k.goOn() {
		typ := "packed"
		if commands[0].Type == "pay" {
			typ = "paid"
		}
		k.take(k.reply(commands[0], typ, "o"))
	}
	if is := k.saga("o"); is.Status != "done" || is.Ended.IsZero() {
		k.t.Errorf("the parent is %s at %s", is.Status, is.Step)
	}
	if end, err := saga.Bind(k.e, inner).Await(k.t.Context(), "o"); err != nil || !end.Done {
		k.t.Errorf("the child ended as %+v, %v", end, err)
	}
	if n := k.e.Health().Done; n != 2 {
		k.t.Errorf("%d sagas ended", n)
	}
}

// TestRepliesUnreadable: a malformed reply is a dead letter, and does not affect the others of its batch.
func TestRepliesUnreadable(t *testing.T) {
	onEach(t, repliesUnreadable[tx], repliesUnreadable[*sql.Tx], repliesUnreadable[pgx.Tx])
}

func repliesUnreadable[TTx any](k *desk[TTx]) {
	commands := k.begin(order{ID: "a", Lines: []string{"1", "2", "3", "4"}},
		order{ID: "b", Lines: []string{"1", "2", "3", "4"}})
	var replies []skald.Message
	for i, c := range commands {
		replies = append(replies, k.reply(c, "packed", fmt.Sprint("key-", i)))
	}
	bad := []int{2, 5}
	for _, i := range bad {
		replies[i].Data = []byte("{")
	}
	k.take(replies...)
	kept, err := store.ListParked(k.t.Context(), k.db, store.ParkedQuery{Consumer: "orders"})
	if err != nil {
		k.t.Fatal(err)
	}
	var ids []string
	for _, p := range kept {
		if ids = append(ids, p.ID); p.Dead == nil || p.Dead.Kind != "malformed" {
			k.t.Errorf("%s is kept as %+v", p.ID, p.Dead)
		}
	}
	slices.Sort(ids)
	if want := []string{replies[2].ID, replies[5].ID}; !slices.Equal(ids, want) {
		k.t.Errorf("kept: %v, want %v", ids, want)
	}
	k.expect(map[string]int64{"taken": 6})
	if got := k.goOn(); len(got) != 0 { // each saga waits for a reply, wherever the malformed ones were
		k.t.Errorf("the next commands: %v", got)
	}
	k.take(k.reply(commands[2], "packed", "x"), k.reply(commands[5], "packed", "y"))
	if got := k.goOn(); len(got) != 2 {
		k.t.Errorf("the next commands: %v", got)
	}
}
