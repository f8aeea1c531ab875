package pgstore

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/admin"
)

// wire is a proxy that counts the round trips: how often the client sends after it has received.
type wire struct {
	at net.Listener
	to string

	mu       sync.Mutex
	trips    int
	listened bool
}

func newWire(t testing.TB, url string) *wire {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{to: net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))}
	if w.at, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.at.Close() })
	go w.serve()
	return w
}

func (w *wire) serve() {
	for {
		client, err := w.at.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", w.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		go w.pump(server, client, w.spoke)
		go w.pump(client, server, w.heard)
	}
}

func (w *wire) pump(to, from net.Conn, each func()) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			each()
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			_, _ = io.Copy(io.Discard, from)
			return
		}
	}
}

func (w *wire) spoke() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listened {
		w.trips++
		w.listened = false
	}
}

func (w *wire) heard() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listened = true
}

// count returns the number of round trips of f.
func (w *wire) count(f func()) int {
	w.mu.Lock()
	w.trips, w.listened = 0, true
	w.mu.Unlock()
	f()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trips
}

// pool returns a pool of one connection through the wire.
func (w *wire) pool(t testing.TB, b *bed, mode pgx.QueryExecMode) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(b.url)
	if err != nil {
		t.Fatal(err)
	}
	at := w.at.Addr().(*net.TCPAddr)
	config.ConnConfig.Host, config.ConnConfig.Port = at.IP.String(), uint16(at.Port)
	config.ConnConfig.Fallbacks, config.ConnConfig.TLSConfig = nil, nil
	config.ConnConfig.DefaultQueryExecMode = mode
	config.MaxConns, config.MinIdleConns = 1, 0
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { go pool.Close() })
	return pool
}

func aMark() store.Mark {
	return store.Mark{Consumer: "stock",
		Identity: store.Identity{Source: "/orders", ID: uuid7.New(time.Now())}, Outcome: store.Done}
}

func aMessage(key string) skald.Message {
	m := skald.Message{ID: uuid7.New(time.Now()), Topic: "orders", Type: "order.placed", Time: time.Now(),
		ContentType: "application/json", Data: []byte(`{"n":1}`)}
	if key != "" {
		m.Key = []byte(key)
	}
	return m
}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	w := newWire(t, b.url)
	ctx := context.Background()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		b.clear(t)
		s := New(w.pool(t, b, mode), &Options{Schema: b.schema})
		for _, c := range tripCases(ctx, t, b, s) {
			for range 2 { // the first run prepares the statements
				c.do()
			}
			got := w.count(c.do)
			for n := 0; n < 20 && got > c.want; n++ {
				// a slow machine may ping an idle connection, or send one message in two parts
				got = w.count(c.do)
			}
			if got != c.want {
				t.Errorf("%v: %s takes %d round trips, want %d", mode, c.name, got, c.want)
			}
		}
	}
}

// arrives returns the intake of a message from the broker.
func arrives() store.Intake {
	m := aMark()
	m.KeyOrder, m.Key = store.Arriving, []byte("k")
	return store.Intake{Marks: []store.Mark{m}}
}

// TestNothingFollowsWhereEachUseCounts checks that a pool with hooks gets each connection back.
func TestNothingFollowsWhereEachUseCounts(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	config := b.pool.Config()
	uses := 0
	config.AfterRelease = func(*pgx.Conn) bool { uses++; return true }
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	s := New(pool, &Options{Schema: b.schema})
	for range 3 {
		u, err := s.Begin(ctx, arrives())
		if err != nil {
			t.Fatal(err)
		}
		if then, err := u.CommitThen(ctx, arrives()); then != nil || err != nil {
			t.Fatalf("%v follows: %v", then, err)
		}
	}
	pool.Close()
	if uses != 3 {
		t.Errorf("three messages were %d uses", uses)
	}
}

// TestNothingFollowsAtAnotherLevel checks that a unit with another isolation is begun with that.
func TestNothingFollowsAtAnotherLevel(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx, s := context.Background(), b.store(t)
	serial := func() store.Intake {
		in := arrives()
		in.Isolation = store.Serializable
		return in
	}
	for range 3 {
		u, err := s.Begin(ctx, serial())
		if err != nil {
			t.Fatal(err)
		}
		then, err := u.CommitThen(ctx, serial())
		if err != nil {
			t.Fatal(err)
		}
		if then == nil {
			continue
		}
		level := ""
		if err := then.Tx().QueryRow(ctx, "SHOW transaction_isolation").Scan(&level); err != nil ||
			level != "serializable" {
			t.Errorf("what follows is %s: %v", level, err)
		}
		if _, err := then.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

type tripCase struct {
	name string
	want int
	do   func()
}

func tripCases(ctx context.Context, t *testing.T, b *bed, s *Store) []tripCase {
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	begin := func(m store.Mark) store.Unit[pgx.Tx] {
		u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{m},
			Locks:    []store.Lock{{Space: "order", Key: "a"}},
			Settings: []store.Setting{{Name: "app.tenant", Value: "42"}}})
		ok(err)
		return u
	}
	done := aMark()
	_, err := s.Apply(ctx, store.Effect{Mark: &done})
	ok(err)
	reject := func(handle func(u store.Unit[pgx.Tx])) {
		m := aMark()
		u := begin(m)
		handle(u)
		m.Outcome, m.Reason = store.Rejected, "no"
		lock := store.Lock{Space: "order", Key: "a", Version: u.Found().Locks[0]}
		stored, err := u.Rollback(ctx, store.Effect{Mark: &m, Locks: []store.Lock{lock},
			Rows: []skald.Message{aMessage("a")}})
		if ok(err); !stored[0] {
			t.Fatal("the rejection lost its guard")
		}
	}
	var tip string
	return []tripCase{
		{"a message whose handler has one statement", 3, func() {
			u := begin(aMark())
			_, err := u.Tx().Exec(ctx, b.q(`INSERT INTO {kv} VALUES ($1, 'v') ON CONFLICT (key) DO NOTHING`),
				"k")
			ok(err)
			ok(s.Write(ctx, u.Tx(), store.Effect{Rows: []skald.Message{aMessage("a")}}))
			ok(u.Commit(ctx, store.Effect{Rows: []skald.Message{aMessage("b")}}))
		}},
		{"a message whose handler writes before each of two statements and a savepoint", 6, func() {
			u := begin(aMark())
			say := func() { ok(s.Write(ctx, u.Tx(), store.Effect{Rows: []skald.Message{aMessage("a")}})) }
			say()
			_, err := u.Tx().Exec(ctx, b.q(`INSERT INTO {kv} VALUES ($1, 'v') ON CONFLICT (key) DO NOTHING`),
				"k")
			ok(err)
			say()
			n := 0
			ok(u.Tx().QueryRow(ctx, b.q(`SELECT count(*) FROM {kv} WHERE key = $1`), "k").Scan(&n))
			say()
			ok(pgx.BeginFunc(ctx, u.Tx(), func(pgx.Tx) error { say(); return nil }))
			ok(u.Commit(ctx))
		}},
		{"a hundred messages whose handler has one statement for all of them", 3, func() {
			in := store.Intake{}
			for n := range 100 {
				m := aMark()
				m.KeyOrder, m.Key = store.Arriving, []byte{byte(n % 30)}
				in.Marks = append(in.Marks, m)
				in.Locks = append(in.Locks, store.Lock{Space: "order", Key: strconv.Itoa(n % 50)})
			}
			u, err := s.Begin(ctx, in)
			ok(err)
			_, err = u.Tx().Exec(ctx, b.q(`INSERT INTO {kv} VALUES ($1, 'v') ON CONFLICT (key) DO NOTHING`),
				"k")
			ok(err)
			for range 100 {
				ok(s.Write(ctx, u.Tx(), store.Effect{Rows: []skald.Message{aMessage("a")}}))
			}
			ok(u.Commit(ctx))
		}},
		{"a step that is taken and then undone, of a saga so old that the floor is looked at", 4, func() {
			m := aMark()
			step := store.Step{Consumer: "stock", Saga: m.ID, Name: "charge", Identity: m.Identity,
				Begun: time.Now().Add(-admin.Day)}
			for _, step.State = range []store.StepState{store.StepDone, store.StepUndone} {
				m.ID = uuid7.New(time.Now())
				u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{m}, Steps: []store.Step{step}})
				ok(err)
				ok(u.Commit(ctx, store.Effect{Rows: []skald.Message{aMessage("a")}}))
			}
		}},
		{"three messages that have just come, each begun with the commit of the one before", 4, func() {
			u, err := s.Begin(ctx, arrives())
			ok(err)
			for range 2 {
				then, err := u.CommitThen(ctx, arrives(), store.Effect{Rows: []skald.Message{aMessage("a")}})
				if ok(err); then == nil {
					t.Fatal("nothing follows")
				}
				u = then
			}
			ok(u.Commit(ctx))
		}},
		{"a message that has just come, and came before", 2, func() {
			in := arrives()
			in.Marks[0].Identity = done.Identity
			u, err := s.Begin(ctx, in)
			ok(err)
			_, err = u.Rollback(ctx)
			ok(err)
		}},
		{"a duplicate", 2, func() {
			u := begin(done)
			if u.Found().Marks[0].Outcome != store.Done {
				t.Fatal("the duplicate is not found")
			}
			_, err := u.Rollback(ctx)
			ok(err)
		}},
		{"a rejection", 2, func() { reject(func(store.Unit[pgx.Tx]) {}) }},
		{"a rejection after an error of SQL", 3, func() {
			reject(func(u store.Unit[pgx.Tx]) {
				if _, err := u.Tx().Exec(ctx, "SELECT 1/0"); err == nil {
					t.Fatal("the handler divides by zero")
				}
			})
		}},
		{"a write in the caller's transaction", 3, func() {
			ok(pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
				return s.Write(ctx, tx, store.Effect{Rows: []skald.Message{aMessage("a"), aMessage("b")}})
			}))
		}},
		{"looking up a hundred marks", 1, func() {
			var ids []store.Identity
			for range 100 {
				ids = append(ids, aMark().Identity)
			}
			_, err := s.Seen(ctx, "stock", ids)
			ok(err)
		}},
		{"a lease", 1, func() {
			_, err := s.Lease(ctx, store.LeaseRequest{Owner: "a", Session: "1"})
			ok(err)
		}},
		{"a lease and the progress of all shards", 2, func() {
			got, err := s.Lease(ctx, store.LeaseRequest{Owner: "a", Session: "1"})
			ok(err)
			var es []store.Effect
			for _, l := range got.Shards {
				es = append(es, store.Effect{Shard: &store.Progress{Shard: l.ID, Epoch: l.Epoch,
					Token: l.Token, Cursor: &l.Cursor}})
			}
			_, err = s.Apply(ctx, es...)
			ok(err)
		}},
		{"a tick", 1, func() {
			_, err := store.Snapshot(ctx, s, "")
			ok(err)
		}},
		{"an idle tick", 1, func() {
			if tip == "" {
				var err error
				tip, err = store.Snapshot(ctx, s, "")
				ok(err)
			}
			again, err := store.Snapshot(ctx, s, tip)
			if ok(err); again != tip {
				t.Fatal("a tick that is idle moves")
			}
		}},
		{"a page", 1, func() {
			page, err := s.Pull(ctx, store.Window{Tip: tip}, 10)
			if ok(err); len(page.Rows) == 0 {
				t.Fatal("an empty page")
			}
		}},
	}
}
