package foreign_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/foreign"
	"github.com/skald-go/skald/internal/need"
)

// bed is a test's own schema with the outbox table of another program, and a broker in memory.
type bed struct {
	testing.TB
	db     *sql.DB
	schema string
	bus    *membroker.Broker
	sub    broker.Subscription
	log    strings.Builder // of relays, whose Step is called by the test alone
	now    time.Time
}

// newBed creates the table outbox with these columns, and topics with one partition each.
func newBed(t testing.TB, columns string, topics ...string) *bed {
	t.Helper()
	return newBedOn(t, need.Postgres(t), columns, topics...)
}

// newBedOn works like newBed, on a given server.
func newBedOn(t testing.TB, server, columns string, topics ...string) *bed {
	t.Helper()
	db, err := sql.Open("pgx", server)
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{TB: t, db: db, schema: "foreign_" + strings.ToLower(rand.Text()[:12]), bus: membroker.New(nil),
		now: time.Now()}
	db.SetMaxOpenConns(8)
	t.Cleanup(func() {
		if _, err := db.ExecContext(context.Background(), "DROP SCHEMA "+b.schema+" CASCADE"); err != nil {
			t.Error(err)
		}
		_ = db.Close()
	})
	b.do("CREATE SCHEMA " + b.schema)
	b.do("CREATE TABLE outbox (" + columns + ")")
	if err := b.bus.MakeTopics(t.Context(), 1, topics...); err != nil {
		t.Fatal(err)
	}
	if b.sub, err = b.bus.Subscribe(t.Context(), broker.Group{Name: "reader", Topics: topics}); err != nil {
		t.Fatal(err)
	}
	return b
}

// in replaces the name of the table by its name with the schema.
func (b *bed) in(statement string) string {
	return strings.ReplaceAll(statement, "outbox", b.schema+".outbox")
}

func (b *bed) do(statement string, args ...any) {
	b.Helper()
	b.odd(b.in(statement), args...)
}

// odd works like do, but does not add the schema.
func (b *bed) odd(statement string, args ...any) {
	b.Helper()
	if _, err := b.db.ExecContext(context.Background(), statement, args...); err != nil {
		b.Fatalf("%s: %v", statement, err)
	}
}

func (b *bed) count(query string) (n int) {
	b.Helper()
	if err := b.db.QueryRowContext(context.Background(), b.in(query)).Scan(&n); err != nil {
		b.Fatalf("%s: %v", query, err)
	}
	return n
}

// begin begins a transaction of a writer, on its own connection.
func (b *bed) begin() *sql.Tx {
	b.Helper()
	tx, err := b.db.BeginTx(context.Background(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func (b *bed) within(tx *sql.Tx, statement string, args ...any) {
	b.Helper()
	if _, err := tx.ExecContext(context.Background(), b.in(statement), args...); err != nil {
		b.Fatalf("%s: %v", statement, err)
	}
}

// table decodes a column map for the table of this bed.
func (b *bed) table(text string) foreign.Table {
	b.Helper()
	t, err := foreign.Read(strings.NewReader(text))
	if err != nil {
		b.Fatal(err)
	}
	t.Name = b.schema + "." + t.Name
	return t
}

// relay returns a relay from the table of the bed to bus, with the clock of the bed.
func (b *bed) relay(t foreign.Table, bus broker.Publisher) *foreign.Relay {
	return foreign.New(b.db, t, bus, &foreign.Options{Logger: slog.New(slog.NewTextHandler(&b.log, nil)),
		Now: func() time.Time { return b.now }})
}

// quiet calls Step until there is no work.
func (b *bed) quiet(r *foreign.Relay) {
	b.Helper()
	for range 1000 {
		busy, err := r.Step(context.Background())
		if err != nil {
			b.Fatalf("step: %v", err)
		}
		if !busy {
			return
		}
	}
	b.Fatal("the relay is busy for ever")
}

// came returns the messages that the broker has received since the last call.
func (b *bed) came() (out []skald.Message) {
	b.Helper()
	for {
		batch, err := b.sub.Receive(context.Background(), 1000)
		if err != nil {
			b.Fatal(err)
		}
		if len(batch.Deliveries) == 0 {
			return out
		}
		for _, d := range batch.Deliveries {
			if d.Fault != nil {
				b.Error(d.Fault)
			}
			out = append(out, d.Message)
		}
	}
}

// said returns these messages as text: "topic key data" for each.
func (b *bed) said() string {
	b.Helper()
	var all []string
	for _, m := range b.came() {
		all = append(all, fmt.Sprintf("%s %s %s", m.Topic, m.Key, m.Data))
	}
	return strings.Join(all, ", ")
}

func (b *bed) expect(want string) {
	b.Helper()
	if got := b.said(); got != want {
		b.Errorf("published were\n\t%s\nwant\n\t%s", got, want)
	}
}

// gate is a broker with a function that decides the result of the next call.
type gate struct {
	broker.Publisher
	mu   sync.Mutex
	next func(msgs []skald.Message, pass func() broker.Pending) broker.Pending
}

func (g *gate) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	g.mu.Lock()
	next := g.next
	g.mu.Unlock()
	pass := func() broker.Pending { return g.Publisher.Publish(ctx, msgs, only...) }
	if next == nil {
		return pass()
	}
	return next(msgs, pass)
}

// failing is a call with an error as its answer.
type failing struct{ err error }

func (f failing) Wait(context.Context) error { return f.err }

func (f failing) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}
