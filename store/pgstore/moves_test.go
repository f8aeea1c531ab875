package pgstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

const longest = 5 * time.Minute // for events that must happen eventually

// mover is an outbox on clusters that move, with all messages published from it.
type mover struct {
	*testing.T
	*need.Cluster
	pool *pgxpool.Pool
	db   *pgstore.Store
	bus  *membroker.Broker
	sub  broker.Subscription
	log  journal

	written []string // "key/number", in the order of the commits
	got     []string
}

const keys = 5

// journal is a log that can be read while it is written.
type journal struct {
	mu  sync.Mutex
	all strings.Builder
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all.String()
}

func newMover(t *testing.T, settings ...string) *mover {
	c := need.NewCluster(t, append([]string{"fsync = off", "max_prepared_transactions = 5"}, settings...)...)
	m := &mover{T: t, bus: membroker.New(&membroker.Options{Partitions: 1})}
	ctx := context.Background()
	err := m.bus.MakeTopics(ctx, 1, "orders")
	if err == nil {
		m.sub, err = m.bus.Subscribe(ctx, broker.Group{Name: "test", Topics: []string{"orders"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	c.SQL("postgres", "CREATE DATABASE shop")
	m.at(c, "shop")
	if _, err := pgstore.Migrate(ctx, m.pool, nil); err != nil {
		t.Fatal(err)
	}
	return m
}

// at switches to a database.
func (m *mover) at(c *need.Cluster, database string) {
	m.Helper()
	pool, err := pgxpool.New(context.Background(), c.URL(database))
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(pool.Close)
	m.Cluster, m.pool, m.db = c, pool, pgstore.New(pool, nil)
}

// say writes n messages, each in its own transaction, with alternating keys.
func (m *mover) say(n int) {
	m.Helper()
	for range n {
		tx, err := m.pool.Begin(context.Background())
		if err != nil {
			m.Fatal(err)
		}
		m.sayIn(tx)
		if err := tx.Commit(context.Background()); err != nil {
			m.Fatal(err)
		}
	}
}

func (m *mover) sayIn(tx pgx.Tx) {
	m.Helper()
	key := fmt.Sprint("k", len(m.written)%keys)
	one := fmt.Sprintf("%s/%d", key, len(m.written))
	if _, err := tx.Exec(context.Background(),
		`INSERT INTO skald_outbox (topic, key, type, data) VALUES ('orders', $1, 'said', $2)`, key,
		one); err != nil {
		m.Fatal(err)
	}
	m.written = append(m.written, one)
}

// hurry uses up transaction numbers.
func (m *mover) hurry(n int) {
	m.Helper()
	m.SQL("shop",
		fmt.Sprintf("DO $$ BEGIN FOR i IN 1..%d LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$",
			n))
}

func (m *mover) relay() *relay.Relay {
	return relay.New(m.db, m.bus, &relay.Options{Logger: slog.New(slog.NewTextHandler(&m.log, nil))})
}

// carry relays until there are no more rows.
func (m *mover) carry() {
	m.Helper()
	r := m.relay()
	for quiet := 0; quiet < 2; quiet++ {
		busy, err := r.Step(context.Background())
		if err != nil {
			m.Fatalf("relay: %v", err)
		}
		if busy {
			quiet = -1
		}
	}
	if err := r.Close(context.Background()); err != nil {
		m.Fatal(err)
	}
	m.hear()
}

// hear reads the published messages.
func (m *mover) hear() (fresh []string) {
	m.Helper()
	for {
		b, err := m.sub.Receive(context.Background(), 1000)
		if err != nil {
			m.Fatal(err)
		}
		if len(b.Deliveries) == 0 {
			m.got = append(m.got, fresh...)
			return fresh
		}
		for _, d := range b.Deliveries {
			fresh = append(fresh, string(d.Data))
		}
	}
}

// heard reports whether all messages were published, at least once.
func (m *mover) heard() bool {
	m.hear()
	return !slices.ContainsFunc(m.written, func(one string) bool { return !slices.Contains(m.got, one) })
}

// refuses checks that relays stop in Step and in Run with the reason, and publish nothing.
func (m *mover) refuses() {
	m.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	r := m.relay()
	err := r.Run(ctx)
	m.wantMoved(err)
	if h := r.Health(); h.Live || h.Ready || !strings.Contains(h.Why, "skald outbox recover") {
		m.Errorf("the relay that stopped is %+v", h)
	}
	if fresh := m.hear(); len(fresh) > 0 {
		m.Fatalf("the relay published %v", fresh)
	}
}

func (m *mover) wantMoved(err error) {
	m.Helper()
	var moved *store.MovedError
	if !errors.As(err, &moved) || !strings.Contains(err.Error(), "skald outbox recover") {
		m.Fatalf("a relay returned %v, want ErrMoved", err)
	}
	m.Logf("%v", err)
}

func (m *mover) recover() store.Recovered {
	m.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	look, err := m.db.Recover(ctx, nil)
	if err != nil || look.Moved == "" {
		m.Fatalf("a Recover without a note returned %+v, %v", look, err)
	}
	done, err := m.db.Recover(ctx, &store.Audit{Author: "ann", Action: "recover"})
	if err != nil || done.Moved != look.Moved || done.Shards == 0 {
		m.Fatalf("Recover returned %+v, %v", done, err)
	}
	m.nothingMoved()
	return done
}

func (m *mover) nothingMoved() {
	m.Helper()
	if again, err := m.db.Recover(context.Background(),
		&store.Audit{Author: "ann", Action: "recover"}); err != nil || again != (store.Recovered{}) {
		m.Fatalf("Recover of a database that did not move returned %+v, %v", again, err)
	}
}

// whole checks that all messages were published, with first deliveries of each key in the order of commits.
func (m *mover) whole() {
	m.Helper()
	seen := map[string]bool{}
	var first []string
	for _, one := range m.got {
		if !seen[one] {
			seen[one] = true
			first = append(first, one)
		}
	}
	for k := range keys {
		of := func(all []string) []string {
			return slices.DeleteFunc(slices.Clone(all),
				func(one string) bool { return !strings.HasPrefix(one, fmt.Sprintf("k%d/", k)) })
		}
		if got, want := of(first), of(m.written); !slices.Equal(got, want) {
			m.Errorf("key %d: published %v, written %v", k, got, want)
		}
	}
}

// TestDumpAndRestore restores a dump. In a new cluster transaction numbers start again: a pending row would
// never be seen, and new rows would count as read.
// Interleaving 5.
func TestDumpAndRestore(t *testing.T) {
	t.Parallel()
	m := newMover(t)
	m.hurry(3000)
	m.say(12)
	m.carry()
	m.say(8)
	m.at2(need.NewCluster(t, "fsync = off"))
	m.say(3)
	m.refuses()
	open, err := m.pool.Begin(context.Background()) // it has a number before the recover, and writes after it
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open.Exec(context.Background(), "SELECT pg_current_xact_id()"); err != nil {
		t.Fatal(err)
	}
	done := m.recover()
	if done.Covered != 12 || done.Again != 11 || done.Renumbered != 0 {
		t.Errorf("Recover returned %+v", done)
	}
	m.sayIn(open)
	if err := open.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	m.say(7)
	m.carry()
	m.whole()
	if len(m.got) != len(m.written) {
		t.Errorf("%d messages were published of %d", len(m.got), len(m.written))
	}
	m.say(5)
	m.carry()
	m.whole()
	m.at2(need.NewCluster(t, "fsync = off")) // once more
	m.say(2)
	m.refuses()
	if done := m.recover(); done.Covered != 36 || done.Again != 2 {
		t.Errorf("the second Recover returned %+v", done)
	}
	m.carry()
	m.whole()
}

// at2 switches to a restored dump in another cluster.
func (m *mover) at2(to *need.Cluster) {
	m.Helper()
	path := m.Dump("shop")
	m.pool.Close()
	m.at(to, "shop")
	to.Load("shop", path)
}

// live runs a relay. The returned function waits for its end.
func (m *mover) live() (stop func() error) {
	m.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	m.Cleanup(cancel)
	r, ended := m.relay(), make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	m.until("the relay is ready", func() bool { return r.Health().Ready && r.Health().Shards > 0 })
	return func() error { return <-ended }
}

func (m *mover) until(what string, is func() bool) {
	m.Helper()
	for end := time.Now().Add(longest); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			m.Fatalf("it never happens that %s: %s", what, &m.log)
		}
	}
}

// TestAnotherDatabaseOfTheSameName replaces the database by another one of the same name while a relay
// runs: it stops by itself.
// Interleaving 5.
func TestAnotherDatabaseOfTheSameName(t *testing.T) {
	t.Parallel()
	m := newMover(t)
	m.say(10)
	ended := m.live()
	m.until("all is published", m.heard)
	path := m.Dump("shop")
	m.Load("next", path)
	m.SQL("postgres", "DROP DATABASE shop WITH (FORCE)", "ALTER DATABASE next RENAME TO shop")
	m.wantMoved(ended())
	m.say(5)
	m.refuses()
	m.recover()
	m.say(5)
	m.carry()
	m.whole()
}

// TestCopyInWhichNothingWasSaid checks that a copy without any messages, such as a template for tests,
// needs no recover.
func TestCopyInWhichNothingWasSaid(t *testing.T) {
	t.Parallel()
	m := newMover(t)
	m.pool.Close()
	m.SQL("postgres", "CREATE DATABASE copied TEMPLATE shop")
	m.at(m.Cluster, "copied")
	m.say(5)
	m.nothingMoved()
	m.carry()
	m.say(5)
	m.carry()
	m.whole()
	m.nothingMoved()
}

// TestFilesOfAnEarlierTime restores the files of an earlier time. A running relay has ticks that do not
// exist: it stops, and others do not start until the recover. Messages after the copy are lost with the
// database; all others stay.
// Interleaving 5.
func TestFilesOfAnEarlierTime(t *testing.T) {
	t.Parallel()
	m := newMover(t)
	m.say(10)
	ended := m.live()
	m.until("all is published", m.heard)
	m.Stop("fast")
	early := m.Copy()
	m.Start()
	before := len(m.written)
	m.say(10)
	m.until("all is published", m.heard)
	m.Stop("immediate")
	m.Restore(early)
	m.Start()
	m.wantMoved(ended())
	m.hear()
	m.written = m.written[:before] // the rest was lost
	m.got = slices.DeleteFunc(m.got, func(one string) bool { return !slices.Contains(m.written, one) })
	m.say(6)
	m.refuses()
	m.recover()
	m.say(6)
	m.carry()
	m.whole()
}

// TestCrashWhereCommitsDoNotWait checks that published rows are on the disk even with synchronous_commit
// off, and that a crash that loses rows and transaction numbers loses no stored row.
// Interleaving 5.
func TestCrashWhereCommitsDoNotWait(t *testing.T) {
	t.Parallel()
	m := newMover(t, "synchronous_commit = off", "wal_writer_delay = 10s")
	for range 5 {
		m.say(50)
		m.carry()
		m.say(7) // may be lost
		m.Stop("immediate")
		m.Start()
		m.until("the database answers", func() bool { return m.pool.Ping(context.Background()) == nil })
		there := strings.Split(m.SQL("shop", "SELECT data FROM skald_outbox ORDER BY seq"), "\n")
		for _, one := range m.got {
			if !slices.Contains(there, one) {
				t.Fatalf("%s was published and is not there", one)
			}
		}
		lost := func(one string) bool { return !slices.Contains(there, one) }
		m.written = slices.DeleteFunc(m.written, lost)
	}
	m.carry()
	m.whole()
	m.nothingMoved()
}

// TestStandbyAndItsPromotion checks that relays wait for a standby, and that its promotion, which only
// changes the timeline, is an ordinary fail-over.
// Interleaving 5.
func TestStandbyAndItsPromotion(t *testing.T) {
	t.Parallel()
	m := newMover(t)
	m.say(10)
	m.carry()
	m.say(5)
	standby := m.Standby()
	m.until("the standby has all", func() bool {
		return standby.SQL("shop", "SELECT count(*) FROM skald_outbox") == fmt.Sprint(len(m.written))
	})
	m.Stop("immediate")
	if err := m.db.Probe(t.Context()); err == nil || !m.db.Outage(err) {
		t.Fatalf("a probe of a stopped server returned %v", err)
	}
	m.pool.Close()
	m.at(standby, "shop")
	if err := m.db.Probe(t.Context()); !errors.Is(err, store.ErrStandby) {
		t.Fatalf("a probe of a standby returned %v", err)
	}
	r := m.relay()
	if _, err := r.Step(context.Background()); !errors.Is(err, store.ErrStandby) || !m.db.Outage(err) ||
		store.Incurable(err) {
		t.Fatalf("a relay on a standby returned %v", err)
	}
	if h := r.Health(); !h.Live || h.Ready || !strings.Contains(h.Why, "standby") {
		t.Errorf("the relay is %+v", h)
	}
	if fresh := m.hear(); len(fresh) > 0 {
		t.Fatalf("on a standby a relay published %v", fresh)
	}
	standby.Promote()
	if err := m.db.Probe(t.Context()); err != nil {
		t.Fatalf("a probe after the promotion returned %v", err)
	}
	m.say(5)
	m.carry()
	m.whole()
	m.nothingMoved()
	if got := m.SQL("shop", "SELECT DISTINCT timeline FROM skald_shard"); got != "2" {
		t.Errorf("the shards are on timeline %s", got)
	}
	if !strings.Contains(m.log.String(), "timeline=2") {
		t.Errorf("the log is %s", m.log.String())
	}
	if len(m.got) != len(m.written) {
		t.Errorf("%d messages were published of %d", len(m.got), len(m.written))
	}
}

// TestLogicalSwitchOver moves the tables to another cluster by logical replication, which does not move
// sequences. New rows there get numbers that were used before, and transactions that old snapshots include.
// Interleaving 5.
func TestLogicalSwitchOver(t *testing.T) {
	t.Parallel()
	m := newMover(t, "wal_level = logical")
	m.SQL("shop", "ALTER SEQUENCE skald_outbox_seq_seq RESTART 1000")
	m.hurry(3000)
	m.say(10)
	m.carry()
	m.say(5)
	to := need.NewCluster(t, "fsync = off", "wal_level = logical")
	to.Load("shop", m.Dump("shop", "--schema-only"))
	m.SQL("shop", "CREATE PUBLICATION move FOR ALL TABLES")
	to.SQL("shop",
		fmt.Sprintf("CREATE SUBSCRIPTION move CONNECTION 'host=127.0.0.1 port=%d user=postgres dbname=shop' PUBLICATION move", m.Port))
	m.say(5)
	m.until("the other cluster has all", func() bool {
		return to.SQL("shop", "SELECT count(*) FROM skald_outbox") == fmt.Sprint(len(m.written)) &&
			to.SQL("shop", "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'") == "0"
	})
	to.SQL("shop", "DROP SUBSCRIPTION move")
	m.pool.Close()
	m.at(to, "shop")
	m.say(8)
	m.refuses()
	done := m.recover()
	if done.Covered != 10 || done.Again != 18 || done.Renumbered != 8 {
		t.Errorf("Recover returned %+v", done)
	}
	m.say(8)
	m.carry()
	m.whole()
	if len(m.got) != len(m.written) {
		t.Errorf("%d messages were published of %d", len(m.got), len(m.written))
	}
}

// TestInboxAfterALogicalSwitchOver checks the sequences of consumers after logical replication. Unless they
// are raised, a failed message comes before earlier ones of its key, and a repeat gets the answer of
// another message.
// Interleaving 5.
func TestInboxAfterALogicalSwitchOver(t *testing.T) {
	t.Parallel()
	m := newMover(t, "wal_level = logical")
	ctx := context.Background()
	mark := func(n int) store.Mark {
		return store.Mark{Consumer: "c", Identity: store.Identity{Source: "/s", ID: fmt.Sprint("m", n)},
			Outcome: store.Done}
	}
	done := func(n int, result string) {
		t.Helper()
		one := mark(n)
		one.Result = result
		u, err := m.db.Begin(ctx, store.Intake{Marks: []store.Mark{one}})
		if err != nil {
			t.Fatal(err)
		}
		if err := u.Commit(ctx, store.Effect{Answer: &one}); err != nil {
			t.Fatal(err)
		}
	}
	park := func(id string) {
		t.Helper()
		p := store.Parked{Consumer: "c", Identity: store.Identity{Source: "/s", ID: id},
			Message: skald.Message{ID: id, Topic: "t", Type: "x", Key: []byte("k")}, Attempts: 1}
		if _, err := m.db.Apply(ctx, store.Effect{Park: &store.Park{Parked: p}}); err != nil {
			t.Fatal(err)
		}
	}
	m.say(5)
	m.carry()
	for n := range 4 {
		done(n, fmt.Sprintf(`"result %d"`, n))
		park(fmt.Sprint("p", n))
	}
	to := need.NewCluster(t, "fsync = off", "wal_level = logical")
	to.Load("shop", m.Dump("shop", "--schema-only"))
	m.SQL("shop", "CREATE PUBLICATION move FOR ALL TABLES")
	to.SQL("shop",
		fmt.Sprintf("CREATE SUBSCRIPTION move CONNECTION 'host=127.0.0.1 port=%d user=postgres dbname=shop' PUBLICATION move", m.Port))
	m.until("the other cluster has all", func() bool {
		return to.SQL("shop", "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'") == "0"
	})
	to.SQL("shop", "DROP SUBSCRIPTION move")
	m.pool.Close()
	m.at(to, "shop")
	m.wantMoved(m.db.Check(ctx, store.App))
	m.recover()
	if err := m.db.Check(ctx, store.App); err != nil {
		t.Fatal(err)
	}
	park("p4")
	first, err := m.db.Claim(ctx, store.ClaimRequest{Consumer: "c", Session: "life",
		ClaimSize: store.ClaimSize{Keys: 1}, Lease: time.Hour})
	if err != nil || len(first.Parked) != 1 || first.Parked[0].ID != "p0" {
		t.Errorf("the first of its key is %+v, %v", first.Parked, err)
	}
	u, err := m.db.Begin(ctx, store.Intake{Marks: []store.Mark{mark(7)}})
	if err == nil {
		err = u.Commit(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	if v, err := m.db.Seen(ctx, "c", []store.Identity{mark(7).Identity, mark(3).Identity}); err != nil ||
		v[0].Result != "" || v[1].Result != `"result 3"` {
		t.Errorf("answers are %+v, %v", v, err)
	}
}

// TestRowsOfAnotherDatabase replicates only the outbox into a database with its own shards: its rows are
// above the sequence.
func TestRowsOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	m := newMover(t)
	m.say(5)
	m.carry()
	m.SQL("shop",
		`INSERT INTO skald_outbox (topic, key, type, data, seq, txid) OVERRIDING SYSTEM VALUE VALUES ('orders', 'k0', 'said', 'k0/x', 1000, '5')`)
	m.written = append(m.written, "k0/x")
	m.refuses()
	m.recover()
	for len(m.written)%keys != 0 {
		m.written = append(m.written, "unkeyed")
	}
	m.say(5)
	m.carry()
	m.whole()
}

// TestSettingsOfTheDatabase checks that settings of a database or role have no effect.
func TestSettingsOfTheDatabase(t *testing.T) {
	t.Parallel()
	m := newMover(t)
	for _, set := range []string{"default_transaction_isolation = 'serializable'",
		"default_transaction_read_only = on", "default_transaction_deferrable = on",
		"synchronous_commit = off", "statement_timeout = '20s'", "lock_timeout = '20s'",
		"idle_in_transaction_session_timeout = '20s'", "search_path = pg_catalog",
		"TimeZone = 'Asia/Kathmandu'",
		"DateStyle = 'SQL, DMY'", "bytea_output = 'escape'", "extra_float_digits = 0",
		"standard_conforming_strings = off"} {
		m.SQL("postgres", "ALTER DATABASE shop SET "+set)
	}
	m.pool.Close()
	m.at(m.Cluster, "shop")
	db := stdlib.OpenDBFromPool(m.pool)
	defer func() { _ = db.Close() }()
	ctx := context.Background()
	for i := range 4 {
		mark := store.Mark{Consumer: "c", Identity: store.Identity{Source: "/s", ID: fmt.Sprint(i)},
			Outcome: store.Done}
		one := fmt.Sprintf("k%d/%d", i, i)
		effect := store.Effect{Rows: []skald.Message{{ID: uuid7.New(time.Now()), Time: time.Now(),
			Topic: "orders", Key: []byte(fmt.Sprint("k", i)), Type: "said", ContentType: "application/json",
			Data: []byte(one)}}}
		err := error(nil)
		if i%2 == 0 {
			err = take[pgx.Tx](ctx, m.db, mark, effect)
		} else {
			err = take[*sql.Tx](ctx, pgstore.NewSQL(db, nil), mark, effect)
		}
		if err != nil {
			t.Fatal(err)
		}
		m.written = append(m.written, one)
	}
	m.carry()
	if !m.heard() {
		t.Errorf("published %v, written %v", m.got, m.written)
	}
	if _, err := m.db.Maintain(ctx, store.Maintain{}); err != nil {
		t.Error(err)
	}
	if _, err := m.pool.Exec(ctx,
		"INSERT INTO public.skald_outbox (topic, type) VALUES ('orders', 'x')"); err == nil ||
		!strings.Contains(err.Error(), "read-only transaction") {
		t.Errorf("your own transaction, where the default is to read only: %v", err)
	}
}

// take handles a message with its effect: a mark and a row.
func take[TTx any](ctx context.Context, d store.Driver[TTx], m store.Mark, e store.Effect) error {
	u, err := d.Begin(ctx, store.Intake{Marks: []store.Mark{m}, Locks: []store.Lock{{Space: "a", Key: "b"}}})
	if err != nil {
		return err
	}
	if err := d.Write(ctx, u.Tx(), e); err != nil {
		_, _ = u.Rollback(ctx)
		return err
	}
	return u.Commit(ctx)
}

// TestRecoverIsKilled kills a recover while it waits for a writer, after it settled the pages. New rows
// come, and it runs again.
// Interleaving 5.
func TestRecoverIsKilled(t *testing.T) {
	t.Parallel()
	m := newMover(t)
	m.hurry(2000)
	m.say(12)
	m.carry()
	m.say(8)
	m.at2(need.NewCluster(t, "fsync = off"))
	m.say(3)
	ctx := context.Background()
	writer, err := m.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m.sayIn(writer)
	killed := make(chan error, 1)
	go func() {
		_, err := m.db.Recover(ctx, &store.Audit{Author: "ann", Action: "recover"})
		killed <- err
	}()
	m.until("the recover waits, and is killed", func() bool {
		return m.SQL("shop",
			"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%IN EXCLUSIVE MODE%'") == "1"
	})
	if err := <-killed; err == nil {
		t.Fatal("the recover was not killed")
	}
	if err := writer.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	m.refuses()
	m.say(3)
	if done := m.recover(); done.Covered != 12 || done.Again != 15 {
		t.Errorf("Recover returned %+v", done)
	}
	m.say(3)
	m.carry()
	m.whole()
	if len(m.got) != len(m.written) {
		t.Errorf("%d messages were published of %d", len(m.got), len(m.written))
	}
}
