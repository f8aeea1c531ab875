package foreign_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/foreign"
)

// counted is a table that orders by a number.
const (
	counted    = `n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, topic text DEFAULT 'orders', key text, body text, sent_at timestamptz`
	countedMap = `{"table": "outbox", "id": "${n}", "topic": "${topic}", "key": "${key}", "payload": "body", "order": ["n"], "done": {"column": "sent_at"}}`
)

// The tables of the articles, and others that teams have, are carried as they stand.
func TestTablesAsTheyStand(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		columns, insert, table string
		want                   skald.Message
		left                   string // counts what is not done
	}{
		"processed_at, topic in a column": {
			`id uuid PRIMARY KEY, aggregate_id uuid NOT NULL, aggregate_type varchar(255) NOT NULL, topic varchar(255) NOT NULL,
				payload jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), processed_at timestamptz NULL`,
			`INSERT INTO outbox (id, aggregate_id, aggregate_type, topic, payload, created_at) VALUES ('11111111-1111-4111-8111-111111111111',
				'22222222-2222-4222-8222-222222222222', 'Order', 'order.events.created', '{"a": 1}', '2026-01-02 03:04:05Z')`,
			`{"table": "outbox", "id": "${id}", "source": "/orders", "topic": "${topic}", "key": "${aggregate_id}", "payload": "payload", "time": "created_at",
				"headers": {"aggregate-type": "${aggregate_type}", "event-id": "${id}"}, "order": ["created_at"], "done": {"column": "processed_at"}}`,
			skald.Message{ID: "11111111-1111-4111-8111-111111111111", Source: "/orders",
				Topic: "order.events.created", Type: "order.events.created",
				Key:  []byte("22222222-2222-4222-8222-222222222222"),
				Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), ContentType: "application/json",
				Headers: []skald.Header{{Name: "aggregate-type", Value: []byte("Order")},
					{Name: "event-id", Value: []byte("11111111-1111-4111-8111-111111111111")}},
				Data: []byte(`{"a": 1}`)},
			`SELECT count(*) FROM outbox WHERE processed_at IS NULL`,
		},
		"routed by aggregate_type, deleted": {
			`id uuid PRIMARY KEY, aggregate_type text, aggregate_id text, type text, payload json, at timestamp`,
			`INSERT INTO outbox VALUES ('11111111-1111-4111-8111-111111111111', 'Order', '7', 'OrderCreated', '{"a":1}', '2026-01-02 03:04:05.5')`,
			`{"table": "outbox", "id": "${id}", "topic": "${aggregate_type}.events.created", "key": "${aggregate_type}/${aggregate_id}", "type": "${type}",
				"payload": "payload", "time": "at", "order": ["at", "id"], "done": {"delete": true}}`,
			skald.Message{ID: "11111111-1111-4111-8111-111111111111", Source: "/outbox",
				Topic: "Order.events.created", Type: "OrderCreated", Key: []byte("Order/7"),
				Time: time.Date(2026, 1, 2, 3, 4, 5, 500000000, time.UTC), ContentType: "application/json",
				Data: []byte(`{"a":1}`)},
			`SELECT count(*) FROM outbox`,
		},
		"a boolean, a bytea": {
			`"Id" bigserial PRIMARY KEY, data bytea, done boolean, tenant text, h jsonb, trace text, cause text`,
			`INSERT INTO outbox (data, tenant, h, trace, cause) VALUES ('\x00ff', 'b', NULL, NULL, NULL), ('\x00ff', 'a', '{"z": 1, "a": "ü", "n": null}', '00-1', 'c')`,
			`{"table": "outbox", "id": "row-${Id}", "source": "it's \\ a source", "topic": "orders", "type": "it's \\ ${tenant}", "payload": "data", "headers_in": "h",
				"correlation": "${cause}", "trace": "${trace}", "order": ["Id"], "where": "tenant = 'a'", "done": {"column": "done"}}`,
			skald.Message{ID: "row-2", Source: `it's \ a source`, Topic: "orders", Type: `it's \ a`,
				CorrelationID: "c", TraceParent: "00-1",
				Headers: []skald.Header{{Name: "a", Value: []byte("ü")}, {Name: "n", Value: []byte("null")},
					{Name: "z", Value: []byte("1")}}, Data: []byte{0, 255}},
			`SELECT count(*) FROM outbox WHERE tenant = 'a' AND done IS NOT TRUE`,
		},
		"a status, a tombstone": {
			`id int PRIMARY KEY, key text, payload text, status text DEFAULT 'NEW'`,
			`INSERT INTO outbox VALUES (1, '', NULL)`,
			`{"table": "outbox", "id": "${id}", "topic": "orders", "key": "${key}", "payload": "payload", "content_type": "text/plain", "order": ["id"],
				"done": {"column": "status", "pending": "NEW", "sent": "SENT"}}`,
			skald.Message{ID: "1", Source: "/outbox", Topic: "orders", Type: "orders", Key: []byte{},
				ContentType: "text/plain"},
			`SELECT count(*) FROM outbox WHERE status <> 'SENT'`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, c.columns, "orders", "order.events.created", "Order.events.created")
			table := b.table(c.table)
			if c.want.Source == "/outbox" {
				c.want.Source = "/" + table.Name
			}
			b.do(c.insert)
			b.quiet(b.relay(table, b.bus))
			got := b.came()
			if len(got) != 1 || fmt.Sprintf("%+v", got[0]) != fmt.Sprintf("%+v", c.want) ||
				(got[0].Data == nil) != (c.want.Data == nil) {
				t.Errorf("published were %d\n\t%+v\nwant\n\t%+v\n%s", len(got), got, c.want, b.log.String())
			}
			if n := b.count(c.left); n != 0 {
				t.Errorf("%d rows are not done", n)
			}
			b.quiet(b.relay(table, b.bus))
			b.expect("")
		})
	}
}

// A smaller number that commits later is neither lost nor does it hold others up.
func TestLateCommits(t *testing.T) {
	t.Parallel()
	b := newBed(t, counted, "orders")
	r := b.relay(b.table(countedMap), b.bus)
	late := b.begin()
	b.within(late, `INSERT INTO outbox (key, body) VALUES ('a', 'late')`)
	b.do(`INSERT INTO outbox (key, body) VALUES ('b', 'early')`)
	b.quiet(r)
	b.expect("orders b early")
	if err := late.Commit(); err != nil {
		t.Fatal(err)
	}
	b.do(`INSERT INTO outbox (key, body) VALUES ('a', 'next')`)
	b.quiet(r)
	b.expect("orders a late, orders a next")
}

// Rows of one transaction have one time, and ids that say nothing: they go in the order in which they were
// inserted.
func TestEqualTimestamps(t *testing.T) {
	t.Parallel()
	b := newBed(t,
		`id uuid PRIMARY KEY DEFAULT gen_random_uuid(), at timestamptz DEFAULT now(), key text, body text`,
		"orders")
	r := b.relay(
		b.table(`{"table": "outbox", "id": "${id}", "topic": "orders", "key": "${key}", "payload": "body", "order": ["at"], "done": {"delete": true}}`), b.bus)
	for round := range 5 { // the places of deleted rows are taken again
		tx, want := b.begin(), []string(nil)
		for i := range 40 {
			body := fmt.Sprint(round, ".", i)
			b.within(tx, `INSERT INTO outbox (key, body) VALUES ('a', $1)`, body)
			want = append(want, "orders a "+body)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		b.quiet(r)
		b.expect(strings.Join(want, ", "))
		b.do("VACUUM outbox")
	}
	if !strings.Contains(b.log.String(), "the one that began first is published first") {
		t.Errorf("nothing is said of the order by a time:\n%s", b.log.String())
	}
}

// Where a column counts, rows of one time keep their order also after a poller that rolled its marks back.
func TestEqualTimestampsAfterARollback(t *testing.T) {
	t.Parallel()
	b := newBed(t,
		`n bigint GENERATED ALWAYS AS IDENTITY, at timestamptz DEFAULT '2026-01-01', key text, body text, sent boolean`, "orders")
	table := b.table(`{"table": "outbox", "id": "${n}", "topic": "orders", "key": "${key}", "payload": "body", "order": ["at"], "done": {"column": "sent"}}`)
	b.do(`INSERT INTO outbox (key, body) VALUES ('a', '1'), ('a', '2'), ('a', '3')`)
	poller := b.begin()
	b.within(poller, `SELECT 1`)
	for _, n := range []string{"2", "1"} {
		b.within(poller, `UPDATE outbox SET sent = true WHERE body = `+"'"+n+"'")
	}
	if err := poller.Rollback(); err != nil {
		t.Fatal(err)
	}
	b.quiet(b.relay(table, b.bus))
	b.expect("orders a 1, orders a 2, orders a 3")
}

// What cannot be published is deferred under its name; its key waits, the table does not.
func TestMalformedRows(t *testing.T) {
	t.Parallel()
	b := newBed(t, counted+`, h jsonb, name text`, "orders")
	table := b.table(strings.Replace(countedMap, `"${n}"`, `"${name}"`, 1))
	table.HeadersIn = "h"
	r := b.relay(table, b.bus)
	b.do(`INSERT INTO outbox (name, topic, key, body, h) VALUES
		('1', 'orders', 'a', repeat('x', 921601), NULL), ('2', 'orders', 'a', 'waits', NULL), ('3', 'orders', 'b', 'goes', NULL),
		(NULL, 'orders', NULL, 'no id', NULL), ('5', NULL, NULL, 'no topic', NULL), ('6', 'no/topic', NULL, 'bad topic', NULL),
		('7', 'orders', repeat('k', 1025), 'key', NULL), ('8', 'orders', 'c', 'headers', '[1]'), ('9', 'orders', 'd', 'header', '{"ü": 1}'),
		('10', 'orders', 'e', 'large headers', jsonb_build_object('a', repeat('x', 70000))), ('11', 'orders', 'f', 'goes', NULL)`)
	b.quiet(r)
	b.expect("orders b goes, orders f goes")
	if h := r.Health(); !h.Ready || h.Deferred != 8 || h.Published != 2 {
		t.Errorf("health %+v", h)
	}
	for _, said := range []string{"row=1 ", "921601 bytes", `row="ctid `, "no id", "row=5 ", "no topic",
		"row=6 ", "row=7 ", "the key is 1025", "row=8 ", "no JSON object", "row=9 ", "row=10 "} {
		if !strings.Contains(b.log.String(), said) {
			t.Errorf("the log does not say %q", said)
		}
	}
	before := b.log.Len()
	b.now = b.now.Add(time.Hour)
	b.quiet(r) // tried again, in vain
	b.expect("")
	if b.log.Len() != before {
		t.Errorf("it is said again:\n%s", b.log.String()[before:])
	}
	b.do(`UPDATE outbox SET body = 'small' WHERE name = '1'`)
	b.do(`UPDATE outbox SET topic = 'orders' WHERE name IN ('5', '6')`)
	b.do(`DELETE FROM outbox WHERE name = '8'`)
	b.now = b.now.Add(time.Hour)
	b.quiet(r)
	b.expect("orders a small, orders a waits, orders  no topic, orders  bad topic")
}

// Rows of a topic that is missing wait, however many they are, and go when it is there.
func TestMissingTopic(t *testing.T) {
	t.Parallel()
	b := newBed(t, counted, "orders")
	r := b.relay(b.table(countedMap), b.bus)
	b.do(`INSERT INTO outbox (topic, key, body) SELECT 'none', i, i FROM generate_series(1, 1200) AS i`)
	b.do(`INSERT INTO outbox (key, body) VALUES ('a', 'goes')`)
	b.quiet(r)
	b.expect("orders a goes")
	if said := b.log.String(); strings.Count(said, "topic=none") != 1 ||
		!strings.Contains(said, "skald migrate") {
		t.Errorf("it is not said once:\n%s", said)
	}
	if err := b.bus.MakeTopics(t.Context(), 1, "none"); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(time.Hour)
	b.quiet(r)
	if n := b.count("SELECT count(*) FROM outbox WHERE sent_at IS NULL"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// A row that the broker refuses is found among its neighbours, and its key waits; a topic that takes nothing
// waits alone.
func TestRefusedRows(t *testing.T) {
	t.Parallel()
	b := newBed(t, counted, "orders", "full")
	bus := &gate{Publisher: b.bus}
	r := b.relay(b.table(countedMap), bus)
	refuse := true
	bus.next = func(msgs []skald.Message, pass func() broker.Pending) broker.Pending {
		e := &broker.PublishError{}
		var held string
		for i, m := range msgs {
			switch {
			case m.Topic == "full":
				e.Fail(i, errors.New("the queue is full"))
			case refuse && string(m.Data) == "bad":
				held = string(m.Key)
				for k := range msgs { // its neighbours are refused, too
					if string(msgs[k].Key) != held {
						e.Refuse(k, errors.New("too large, one of these"))
					}
				}
				e.Refuse(i, errors.New("too large"))
			case held != "" && string(m.Key) == held:
				e.Fail(i, broker.ErrHeldBack)
			}
		}
		if e.First() == nil {
			return pass()
		}
		var good []skald.Message
		for i, m := range msgs {
			if e.Failed[i] == nil && e.Refused[i] == nil {
				good = append(good, m)
			}
		}
		if err := b.bus.Publish(t.Context(), good).Wait(t.Context()); err != nil {
			t.Error(err)
		}
		return failing{e}
	}
	b.do(`INSERT INTO outbox (topic, key, body) VALUES ('full', 'z', 'f'), ('orders', 'a', 'one'), ('orders', 'b', 'bad'), ('orders', 'b', 'waits'), ('orders', 'c', 'two')`)
	for range 20 { // a failure is no business: Run waits, and a step has nothing to do
		if _, err := r.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.expect("orders a one, orders c two")
	refuse = false
	b.now = b.now.Add(time.Hour)
	for range 20 {
		if _, err := r.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.expect("orders b bad, orders b waits")
	if n := b.count("SELECT count(*) FROM outbox WHERE sent_at IS NULL"); n != 1 {
		t.Errorf("%d rows are left, want the one of the full topic", n)
	}
}

// A row is done only when the broker has acknowledged it, and then at once.
func TestOutage(t *testing.T) {
	t.Parallel()
	b := newBed(t, counted, "orders")
	bus := &gate{Publisher: b.bus,
		next: func([]skald.Message,
			func() broker.Pending) broker.Pending {
			return failing{broker.ErrUnavailable}
		}}
	r := b.relay(b.table(countedMap), bus)
	b.do(`INSERT INTO outbox (key, body) VALUES ('a', '1'), ('a', '2')`)
	if _, err := r.Step(t.Context()); !errors.Is(err, broker.ErrUnavailable) {
		t.Fatalf("step: %v", err)
	}
	if h := r.Health(); h.Ready || h.Why == "" {
		t.Errorf("health %+v", h)
	}
	if n := b.count("SELECT count(*) FROM outbox WHERE sent_at IS NULL"); n != 2 {
		t.Errorf("%d rows are left", n)
	}
	bus.next = nil
	b.quiet(r)
	b.expect("orders a 1, orders a 2")
}

// A relay whose broker does not answer leaves the table to other relays.
func TestOutageOfOneRelay(t *testing.T) {
	t.Parallel()
	b := newBed(t, counted, "orders")
	calls := 0
	cut := &unreachable{gate: gate{Publisher: b.bus,
		next: func([]skald.Message, func() broker.Pending) broker.Pending {
			calls++
			return failing{broker.ErrUnavailable}
		}}}
	r := b.relay(b.table(countedMap), cut)
	b.do(`INSERT INTO outbox (key, body) VALUES ('a', '1'), ('a', '2')`)
	for range 3 {
		if _, err := r.Step(t.Context()); !errors.Is(err, broker.ErrUnavailable) {
			t.Fatalf("step: %v", err)
		}
	}
	if calls != 0 {
		t.Errorf("it locked rows for %d calls to a broker that does not answer", calls)
	}
	b.quiet(b.relay(b.table(countedMap), b.bus))
	b.expect("orders a 1, orders a 2")
}

// unreachable is a broker that does not answer.
type unreachable struct{ gate }

func (*unreachable) Incarnation(context.Context) (string, error) { return "", broker.ErrUnavailable }

// A relay whose connection ends between acknowledgement and commit repeats its page, and loses nothing.
func TestConnectionLostBeforeCommit(t *testing.T) {
	t.Parallel()
	b := newBed(t, counted, "orders")
	bus := &gate{Publisher: b.bus}
	r := b.relay(b.table(countedMap), bus)
	b.do(`INSERT INTO outbox (key, body) VALUES ('a', '1'), ('a', '2')`)
	bus.next = func(_ []skald.Message, pass func() broker.Pending) broker.Pending {
		out := pass()
		b.count(`SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE state = 'idle in transaction' AND query LIKE '%` + b.schema + `%'`)
		return out
	}
	if _, err := r.Step(t.Context()); err == nil {
		t.Fatal("nothing happened to the connection")
	}
	bus.next = nil
	b.quiet(r)
	b.expect("orders a 1, orders a 2, orders a 1, orders a 2")
}

// TestBesideAPoller checks that the team's own poller and the relay publish each row once, in the order of
// its key. Rows that the poller has locked delay only their keys.
func TestBesideAPoller(t *testing.T) {
	t.Parallel()
	b := newBed(t, counted, "orders")
	r := b.relay(b.table(countedMap), b.bus)
	b.do(`INSERT INTO outbox (key, body) VALUES ('a', '1'), ('a', '2'), ('a', '3'), ('a', '4'), ('b', '1'), (NULL, '1')`)
	poller := b.begin()
	b.within(poller, `SELECT FROM outbox WHERE n <= 2 FOR UPDATE SKIP LOCKED`)
	b.quiet(r)
	b.expect("orders b 1, orders  1")
	b.within(poller, `UPDATE outbox SET sent_at = now() WHERE n = 1`)
	b.within(poller, `DELETE FROM outbox WHERE n = 2`)
	b.quiet(r)
	b.expect("")
	if err := poller.Commit(); err != nil {
		t.Fatal(err)
	}
	b.quiet(r)
	b.expect("orders a 3, orders a 4")
}

// Several relays on one table, with writers beside them: nothing is lost, nothing is said twice, and by
// ClaimTable each key keeps its order.
func TestSeveralRelays(t *testing.T) {
	t.Parallel()
	for _, claim := range []string{foreign.ClaimTable, foreign.ClaimRows} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, counted, "orders")
			table := b.table(countedMap)
			table.Claim = claim
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
			defer stop()
			var relays, writers sync.WaitGroup
			for range 3 {
				relays.Go(func() {
					r := foreign.New(b.db, table, b.bus,
						&foreign.Options{Page: 7, MaxPollInterval: 5 * time.Millisecond,
							Logger: slog.New(slog.DiscardHandler)})
					if err := r.Run(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			const keys, each = 4, 60
			for key := range keys {
				writers.Go(func() { // one after another: as if it locked its entity
					for i := range each {
						b.do(`INSERT INTO outbox (key, body) VALUES ($1, $2)`, fmt.Sprint(key), fmt.Sprint(i))
					}
				})
			}
			writers.Wait()
			for b.count("SELECT count(*) FROM outbox WHERE sent_at IS NULL") > 0 && ctx.Err() == nil {
				time.Sleep(5 * time.Millisecond)
			}
			stop()
			relays.Wait()
			got := map[string][]string{}
			for _, m := range b.came() {
				got[string(m.Key)] = append(got[string(m.Key)], fmt.Sprintf("%03s", m.Data))
			}
			for key, bodies := range got {
				if claim == foreign.ClaimTable && !slices.IsSorted(bodies) {
					t.Errorf("key %s came as %q", key, bodies)
				}
				slices.Sort(bodies)
				if len(bodies) != each || len(slices.Compact(bodies)) != each {
					t.Errorf("of key %s came %d, want %d, each once", key, len(bodies), each)
				}
			}
			if len(got) != keys {
				t.Errorf("%d keys came", len(got))
			}
		})
	}
}

// A table may be partitioned, and hold far more than a page of large rows.
func TestPartitionsAndLargeRows(t *testing.T) {
	t.Parallel()
	b := newBed(t, `n bigint, key text, body text, sent_at timestamptz) PARTITION BY HASH (n`, "orders")
	for i := range 3 {
		b.do(
			fmt.Sprintf(
				"CREATE TABLE outbox_%d PARTITION OF outbox FOR VALUES WITH (MODULUS 3, REMAINDER %d)", i, i))
	}
	table := b.table(strings.Replace(countedMap, "${topic}", "orders", 1))
	b.do(`INSERT INTO outbox (n, key, body) SELECT i, 'a', repeat(chr(64 + i), 900000) FROM generate_series(1, 12) AS i`)
	b.quiet(b.relay(table, b.bus))
	var got []byte
	for _, m := range b.came() {
		got = append(got, m.Data[0])
	}
	if string(got) != "ABCDEFGHIJKL" {
		t.Errorf("published were %s", got)
	}
	if n := b.count("SELECT count(*) FROM outbox WHERE sent_at IS NULL"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// A call that the broker does not answer is given up, with its rows' locks. Nothing is published before its
// answer has come: it could overtake.
func TestBrokerThatHangs(t *testing.T) {
	t.Parallel()
	b := newBed(t, counted, "orders")
	answer := make(chan struct{})
	bus := &gate{Publisher: b.bus,
		next: func([]skald.Message, func() broker.Pending) broker.Pending { return hanging{answer} }}
	r := foreign.New(b.db, b.table(countedMap), bus,
		&foreign.Options{Patience: time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	b.do(`INSERT INTO outbox (key, body) VALUES ('a', '1')`)
	if _, err := r.Step(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("step: %v", err)
	}
	b.do(`UPDATE outbox SET body = '2'`) // it is not locked
	bus.next = nil
	if _, err := r.Step(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "has not answered for an earlier page") {
		t.Fatalf("step: %v", err)
	}
	b.expect("")
	close(answer)
	b.quiet(r)
	b.expect("orders a 2")
}

// hanging is a call that waits for its answer.
type hanging struct{ answer chan struct{} }

func (h hanging) Done() <-chan struct{} { return h.answer }

func (h hanging) Wait(ctx context.Context) error {
	select {
	case <-h.answer:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
