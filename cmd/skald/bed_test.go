package main_test

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
	"github.com/skald-go/skald/store/sqlitestore"

	_ "github.com/jackc/pgx/v5/stdlib" // both stores lend a *sql.Tx: one consumer is tried on both
)

// A bed is a new database, without tables until migrate, on which the command works and consumers of this
// process do.
type bed struct {
	t      *testing.T
	at     string   // its URL
	env    []string // that names it
	none   int      // the exit code where there are no tables
	day    string   // as the times of marks are counted
	serial string   // a column that counts
	goesBy string   // the column of marks that the retention goes by
	db     *sql.DB
	s      store.Driver[*sql.Tx]
}

// onEachStore tries it on SQLite and on PostgreSQL, on as many databases as it makes.
func onEachStore(t *testing.T, try func(t *testing.T, fresh func(*testing.T) *bed)) {
	t.Parallel()
	for name, fresh := range map[string]func(*testing.T) *bed{"sqlite": onSQLite, "postgres": onPostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			try(t, fresh)
		})
	}
}

func onSQLite(t *testing.T) *bed {
	path := filepath.Join(t.TempDir(), "bed.db")
	return &bed{t: t, at: "sqlite:" + path, env: []string{"SKALD_STORE=sqlite:" + path}, none: 4,
		day: "86400000", serial: "INTEGER PRIMARY KEY", goesBy: "written"}
}

func onPostgres(t *testing.T) *bed {
	at, _ := postgres(t)
	return &bed{t: t, at: at, env: []string{"SKALD_STORE=" + at}, none: 5, day: "interval '1 day'",
		serial: "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY", goesBy: "at"}
}

// migrate makes Skald's tables, by the command, and one for what consumers take.
func (b *bed) migrate() *bed {
	b.t.Helper()
	start(b.t, b.env, "migrate").expect(0)
	var err error
	if path, isFile := strings.CutPrefix(b.at, "sqlite:"); isFile {
		b.db, err = sqlitestore.Open(path)
		must(b.t, err)
		b.s = sqlitestore.New(b.db, nil)
	} else {
		b.db, err = sql.Open("pgx", b.at)
		must(b.t, err)
		b.db.SetMaxOpenConns(8) // the server is others', too
		b.s = pgstore.NewSQL(b.db, nil)
	}
	b.t.Cleanup(func() { _ = b.db.Close() })
	b.exec("CREATE TABLE taken (n " + b.serial + ", id text)")
	return b
}

func (b *bed) exec(statement string) {
	b.t.Helper()
	_, err := b.db.ExecContext(b.t.Context(), statement)
	must(b.t, err)
}

// count is of the rows of a table, perhaps WHERE something holds.
func (b *bed) count(rows string, args ...any) (n int) {
	b.t.Helper()
	must(b.t, b.db.QueryRowContext(b.t.Context(), "SELECT count(*) FROM "+rows, args...).Scan(&n))
	return n
}

// taken are the ids of what took effect, in that order.
func (b *bed) taken() string {
	b.t.Helper()
	return text(b.t, b.db, "SELECT coalesce(string_agg(id, ' ' ORDER BY n), '') FROM taken")
}

// bus is one within this process, with a topic.
func (b *bed) bus(topic string) *membroker.Broker {
	b.t.Helper()
	bus := membroker.New(nil)
	must(b.t, bus.MakeTopics(b.t.Context(), 1, topic))
	return bus
}

// run starts a consumer until the test ends. What it takes it writes into taken, in the transaction of the
// message, and then asks whether that is to stand; nil: it is.
func (b *bed) run(bus broker.Subscriber, group, topic, typ string, o inbox.Options,
	then func(skald.Message) error) *inbox.Inbox[*sql.Tx] {
	o.Logger = slog.New(slog.DiscardHandler)
	in := inbox.New(b.s, bus, group, &o)
	in.Handle(topic, typ, func(ctx context.Context, tx *sql.Tx, m skald.Message) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO taken (id) VALUES ($1)", m.ID)
		if err != nil || then == nil {
			return err
		}
		return then(m)
	})
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	b.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	})
	return in
}
