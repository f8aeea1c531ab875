package orm

import (
	"database/sql"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
	"github.com/skald-go/skald/store/storetest"
)

// seat is what storetest asks of a database, by lib/pq.
type seat struct {
	*bed
	db *sql.DB // beside the driver
}

func (s seat) Driver(t testing.TB) store.Driver[*sql.Tx] {
	t.Helper()
	return pgstore.NewSQL(s.open(t, "postgres"), nil)
}

func (s seat) Begin(t testing.TB) *sql.Tx {
	t.Helper()
	tx, err := s.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func (s seat) Commit(tx *sql.Tx) error   { return tx.Commit() }
func (s seat) Rollback(tx *sql.Tx) error { return tx.Rollback() }

func (s seat) Put(tx *sql.Tx, key, value string) error {
	_, err := tx.Exec("INSERT INTO kv VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
		key, value)
	return err
}

func TestConformancePQ(t *testing.T) {
	b := newBed(t)
	storetest.Run(t, storetest.Harness[*sql.Tx]{
		Open: func(t testing.TB) storetest.Database[*sql.Tx] {
			b.clear(t)
			return seat{b, b.open(t, "postgres")}
		},
		Can: storetest.Can[*sql.Tx]{Rivals: true, Limits: true, Poison: func(tx *sql.Tx) error {
			_, err := tx.Exec("SELECT 1/0")
			return err
		}, Anew: []func(*sql.Tx) error{by("ROLLBACK AND CHAIN"), by("ROLLBACK; BEGIN"),
			by("COMMIT AND CHAIN")},
			Pool: func(t testing.TB, _ storetest.Database[*sql.Tx], connections int) store.Driver[*sql.Tx] {
				t.Helper()
				db := b.open(t, "postgres")
				db.SetMaxOpenConns(connections)
				return pgstore.NewSQL(db, nil)
			}, Setting: func(t testing.TB, tx *sql.Tx, name string) (value string) {
				t.Helper()
				if err := tx.QueryRow("SELECT coalesce(current_setting($1, true), '')",
					name).Scan(&value); err != nil {
					t.Fatal(err)
				}
				return value
			}},
		Sample: 4, // pgstore runs the whole suite over pgx
	})
}

func by(text string) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.Exec(text)
		return err
	}
}

// A line counts how often the client speaks after it has listened.
type line struct {
	net.Conn
	trips *atomic.Int64
	heard *atomic.Bool
}

func (l line) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	l.heard.Store(true)
	return n, err
}

func (l line) Write(b []byte) (int, error) {
	if l.heard.Swap(false) {
		l.trips.Add(1)
	}
	return l.Conn.Write(b)
}

// A counter dials lines.
type counter struct {
	trips atomic.Int64
	heard atomic.Bool
}

func (c *counter) Dial(network, address string) (net.Conn, error) {
	return c.DialTimeout(network, address, 5*time.Minute)
}

func (c *counter) DialTimeout(network, address string, most time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, most)
	return line{conn, &c.trips, &c.heard}, err
}

func TestRoundTripsPQ(t *testing.T) {
	b, ctx, dialer := newBed(t), t.Context(), &counter{}
	connector, err := pq.NewConnector(b.url)
	if err != nil {
		t.Fatal(err)
	}
	connector.Dialer(dialer)
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	s := pgstore.NewSQL(db, nil)
	intake := func(m store.Mark) store.Intake {
		return store.Intake{Marks: []store.Mark{m}, Locks: []store.Lock{{Space: "order", Key: "a"}},
			Settings: []store.Setting{{Name: "app.tenant", Value: "it's 42"}}}
	}
	done := mark()
	if _, err := s.Apply(ctx, store.Effect{Mark: &done}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		want int64
		do   func() error
	}{
		"a message with one event": {5, func() error {
			u, err := s.Begin(ctx, intake(mark()))
			if err != nil {
				return err
			}
			return errors.Join(s.Write(ctx, u.Tx(), said("a")), u.Commit(ctx))
		}},
		"a duplicate": {3, func() error {
			u, err := s.Begin(ctx, intake(done))
			if err != nil {
				return err
			}
			if u.Found().Marks[0].Outcome != store.Done {
				return errors.New("it is not found")
			}
			_, err = u.Rollback(ctx)
			return err
		}},
		"a write in the caller's transaction": {3, func() error {
			tx, err := db.Begin()
			if err != nil {
				return err
			}
			return errors.Join(s.Write(ctx, tx, said("a")), tx.Commit())
		}},
		"a lease": {3, func() error {
			_, err := s.Lease(ctx, store.LeaseRequest{Owner: "a", Session: "1"})
			return err
		}},
	} {
		before := dialer.trips.Load()
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := dialer.trips.Load() - before; got != c.want {
			t.Errorf("%s takes %d round trips, want %d", name, got, c.want)
		}
	}
}

func mark() store.Mark {
	return store.Mark{Consumer: "stock",
		Identity: store.Identity{Source: "/orders", ID: uuid7.New(time.Now())}, Outcome: store.Done}
}

func said(key string) store.Effect {
	return store.Effect{Rows: []skald.Message{{ID: uuid7.New(time.Now()), Topic: "orders",
		Type: "order.placed", Key: []byte(key), Time: time.Now(),
		ContentType: "application/json", Data: []byte(`{"n":1}`)}}}
}

// A handler that ends its transaction by a statement, which lib/pq does not tell: what is to be committed
// with it does not stand by itself.
func TestHandlerThatCommitsPQ(t *testing.T) {
	for _, c := range []struct {
		end string
		es  []store.Effect
	}{{"COMMIT", nil}, {"COMMIT", []store.Effect{said("a")}}, {"ROLLBACK", nil},
		{"ROLLBACK", []store.Effect{said("a")}}} {
		b, end := newBed(t), c.end
		s := pgstore.NewSQL(b.open(t, "postgres"), nil)
		u, err := s.Begin(t.Context(), store.Intake{Marks: []store.Mark{mark()}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Tx().Exec(end); (err != nil) != (end == "COMMIT") { // PostgreSQL refuses COMMIT
			t.Fatalf("%s: %v", end, err)
		}
		if err := u.Commit(t.Context(), c.es...); !errors.Is(err, store.ErrLent) {
			t.Errorf("after %s of the handler: %v", end, err)
		}
		if n := b.Count(t).Rows; n != 0 {
			t.Errorf("after %s of the handler %d rows stand", end, n)
		}
	}
}

// A handler that swallows an error has an aborted transaction: its commit is none.
func TestHandlerThatSwallowsAnErrorPQ(t *testing.T) {
	b := newBed(t)
	s := pgstore.NewSQL(b.open(t, "postgres"), nil)
	for _, es := range [][]store.Effect{nil, {said("a")}} {
		u, err := s.Begin(t.Context(), store.Intake{Marks: []store.Mark{mark()}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Tx().Exec("SELECT 1/0"); err == nil {
			t.Fatal("the handler divides by zero")
		}
		if err := u.Commit(t.Context(), es...); err == nil {
			t.Error("it is committed")
		}
	}
	if n := b.Count(t); n.Rows+n.Marks != 0 {
		t.Errorf("%+v stands", n)
	}
}

// No statement of ours is prepared, so that no session is needed.
func TestPQThroughPgBouncer(t *testing.T) {
	at := need.PgBouncer(t)
	b, ctx := newBed(t), t.Context()
	direct, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	b.url = in(t, at, strings.TrimPrefix(direct.Path, "/"))
	s := pgstore.NewSQL(b.open(t, "postgres"), nil)
	for range 20 {
		u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{mark()}})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Write(ctx, u.Tx(), said("a"), said("b")),
			u.Commit(ctx, said("c"))); err != nil {
			t.Fatal(err)
		}
	}
	tip, err := store.Snapshot(ctx, s, "")
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.Pull(ctx, store.Window{Tip: tip}, 100)
	if err != nil || len(page.Rows) != 60 {
		t.Errorf("%d rows, %v", len(page.Rows), err)
	}
}

// A setting that the database refuses is the fault of whoever chose it for one message, not a missing right
// of the process.
func TestRefusedSettingPQ(t *testing.T) {
	b := newBed(t)
	for _, driver := range []string{"postgres", "pgx"} {
		s := pgstore.NewSQL(b.open(t, driver), nil)
		_, err := s.Begin(t.Context(), store.Intake{Marks: []store.Mark{mark()},
			Locks:    []store.Lock{{Space: "order", Key: "a"}},
			Settings: []store.Setting{{Name: "app.tenant", Value: "42"}, {Name: "role", Value: "nobody"}}})
		if err == nil || store.Incurable(err) ||
			!strings.Contains(err.Error(), "set app.tenant, role for the handler") {
			t.Errorf("%s: %v", driver, err)
		}
	}
}
