package pgstore

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
	"github.com/skald-go/skald/store/pgstore/internal/wal"
)

const walsender = `SELECT count(*) FROM (SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1 AND active) AS t`

// walSlotDropped drops the slot while it is read: the relay polls for commits meanwhile, creates the slot
// again, and logs that.
func walSlotDropped(t *testing.T, b *bed) {
	t.Helper()
	bus := newTap(t)
	r := b.reads(t, bus, "one")
	eventually(t, "it rests", r.hears)
	end := time.Now().Add(5 * time.Minute)
	for i := 0; strings.Count(r.log.String(), "created a replication slot") < 2; i++ {
		if time.Now().After(end) {
			t.Fatal("the slot was never created again")
		}
		b.exec(t, walsender, b.slot())
		_, _ = b.pool.Exec(context.Background(),
			`SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1 AND NOT active`, b.slot())
		b.say(t, fmt.Sprint(i))
		eventually(t, "it is published", func() bool { return bus.has(fmt.Sprintf("%q", fmt.Sprint(i))) })
	}
	eventually(t, "it rests again", r.hears)
	b.say(t, "after")
	eventually(t, "it is published", func() bool { return bus.has(`"after"`) })
}

// walStandby checks two relays with one slot: one reads it and owns all shards; the other is a standby, and
// takes over.
func walStandby(t *testing.T, b *bed) {
	t.Helper()
	bus := newTap(t)
	one := b.reads(t, bus, "one")
	eventually(t, "one rests", func() bool { return one.hears() && one.relay.Health().Shards == 16 })
	two := b.reads(t, bus, "two")
	eventually(t, "two is on standby", func() bool {
		return two.Listening().Elsewhere && two.relay.Health().Shards == 0 && one.relay.Health().Shards == 16
	})
	b.until(t, "it is a standby", `SELECT EXISTS (SELECT FROM {skald_relay} WHERE owner = 'two' AND standby)`)
	eventually(t, "the standby is ready", func() bool { return two.relay.Health().Ready })
	if h := two.relay.Health(); h.Polls != "" {
		t.Errorf("the health of a standby is %+v", h)
	}
	one.stop()
	b.say(t, "taken over")
	eventually(t, "two publishes", func() bool { return bus.has(`"taken over"`) })
	eventually(t, "two rests", func() bool { return two.hears() && two.relay.Health().Shards == 16 })
}

// walSlotOfAStranger checks a slot that an unrelated program reads: one relay of two polls and publishes.
func walSlotOfAStranger(t *testing.T, b *bed) {
	t.Helper()
	bus := newTap(t)
	made := b.reads(t, bus, "maker")
	eventually(t, "there is a slot", made.hears)
	made.stop()
	stranger, err := b.store(t).WAL(b.url, &WALOptions{Slot: b.slot()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	var gone sync.WaitGroup
	gone.Go(func() { stranger.Listen(ctx, slog.New(slog.DiscardHandler)) })
	t.Cleanup(func() { leave(); gone.Wait() })
	b.until(t, "the stranger reads", `SELECT active FROM pg_replication_slots WHERE slot_name = $1`, b.slot())
	one, two := b.reads(t, bus, "one"), b.reads(t, bus, "two")
	b.say(t, "said")
	eventually(t, "it is published", func() bool { return bus.has(`"said"`) })
	eventually(t, "one of them has all", func() bool {
		return one.relay.Health().Shards+two.relay.Health().Shards == 16 &&
			one.relay.Health().Shards*two.relay.Health().Shards == 0
	})
}

// walQuietPublication checks that the position moves while only other tables are written, and that the
// server gets the last position at the end, so that it keeps no WAL.
func walQuietPublication(t *testing.T, b *bed) {
	t.Helper()
	r := b.reads(t, newTap(t), "one")
	eventually(t, "it rests", r.hears)
	b.exec(t, `INSERT INTO {kv} SELECT n, repeat('x', 100) FROM generate_series(1, 1000) AS n`)
	at := one[string](t, b, `SELECT pg_current_wal_flush_lsn()::text`)
	b.until(t, "the slot follows",
		`SELECT confirmed_flush_lsn >= $2::pg_lsn FROM pg_replication_slots WHERE slot_name = $1`,
		b.slot(), at)
	at = one[string](t, b, `INSERT INTO {skald_outbox} (topic, type, data) VALUES ('orders', 'said', '1')
		RETURNING pg_current_wal_insert_lsn()::text`)
	eventually(t, "it rests", r.hears)
	r.stop()
	if !one[bool](t, b,
		`SELECT confirmed_flush_lsn >= $2::pg_lsn FROM pg_replication_slots WHERE slot_name = $1`,
		b.slot(), at) {
		t.Errorf("the server did not receive the position %s", at)
	}
}

// walPublicationWithoutTheTable checks a publication that lacks the table: the relay polls, and is notified
// again after the repair.
func walPublicationWithoutTheTable(t *testing.T, b *bed) {
	t.Helper()
	bus := newTap(t)
	r := b.reads(t, bus, "one")
	eventually(t, "it rests", r.hears)
	b.exec(t, `ALTER PUBLICATION `+b.slot()+` DROP TABLE {skald_outbox}`)
	b.say(t, "unheard")
	eventually(t, "it is published", func() bool { return bus.has(`"unheard"`) })
	eventually(t, "health has the reason", func() bool { return strings.Contains(r.relay.Health().Polls, "ADD TABLE") })
	logged := func() int { return strings.Count(r.log.String(), "no notifications of commits") }
	eventually(t, "it is logged", func() bool { return logged() > 0 }) // a moment after Health has it
	b.exec(t, `ALTER PUBLICATION `+b.slot()+` ADD TABLE {skald_outbox}`)
	eventually(t, "it rests again", r.hears)
	if n := logged(); n != 1 {
		t.Errorf("it was logged %d times", n)
	}
}

// walWithoutTheRight checks a role without the replication right: the relay polls and reports the missing
// right.
func walWithoutTheRight(t *testing.T, b *bed) {
	t.Helper()
	bus := newTap(t)
	pool := b.as(t, b.role(t, "relay"), b.name())
	w, err := New(pool, &Options{Schema: b.schema}).WAL("", &WALOptions{Slot: b.slot()})
	if err != nil {
		t.Fatal(err)
	}
	r := relay.New(w, bus, &relay.Options{Logger: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	b.say(t, "said")
	eventually(t, "it is published", func() bool { return bus.has(`"said"`) })
	eventually(t, "health has the reason", func() bool { return strings.Contains(r.Health().Polls, "ALTER ROLE") })
	if !r.Health().Ready {
		t.Errorf("not ready: %+v", r.Health())
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// walCommitThatIsNotVisible checks that the relay is not idle before a look has seen each commit, because
// the WAL has a commit before snapshots do.
func walCommitThatIsNotVisible(t *testing.T, b *bed) {
	t.Helper()
	r := b.reads(t, newTap(t), "one")
	eventually(t, "it rests", r.hears)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var xid uint32
	if err := tx.QueryRow(t.Context(), `SELECT pg_current_xact_id()::text::bigint % 4294967296`).Scan(
		&xid); err != nil {
		t.Fatal(err)
	}
	r.reader.Receive(wal.Message{Kind: wal.Begin, XID: xid})
	r.reader.Receive(wal.Message{Kind: wal.Commit})
	looks := r.looks.Load()
	eventually(t, "it goes on looking", func() bool { return r.looks.Load() > looks+5 })
	if r.hears() {
		t.Error("it would rest")
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it rests", r.hears)
}

// walLargeTransaction checks a large transaction that delays the stream: the relay finds later commits by
// polling.
func walLargeTransaction(t *testing.T, b *bed) {
	t.Helper()
	bus := newTap(t)
	r := b.reads(t, bus, "one")
	eventually(t, "it rests", r.hears)
	rows := 30_000
	if need.All() {
		rows = 1_000_000
	}
	b.exec(t,
		`INSERT INTO {skald_outbox} (topic, key, type, data) SELECT 'orders', n::text, 'large', n::text FROM generate_series(1, $1::integer) AS n`, rows)
	for i := range 5 {
		b.say(t, fmt.Sprint("small ", i))
	}
	eventually(t, "all is published", func() bool { return bus.has(`"small 4"`) })
	eventually(t, "it rests", r.hears)
	if n := bus.distinct(); n != rows+5 {
		t.Errorf("%d messages arrived", n)
	}
}

// walTableChanges changes the table while the slot is read, in transactions that also write: the relay
// continues, and all rows are published.
func walTableChanges(t *testing.T, b *bed) {
	t.Helper()
	bus := newTap(t)
	r := b.reads(t, bus, "one")
	eventually(t, "it rests", r.hears)
	for i, change := range []string{`ALTER TABLE {skald_outbox} ADD COLUMN region text DEFAULT 'eu'`,
		`CREATE INDEX ON {skald_outbox} (region)`,
		`ALTER TABLE {skald_outbox} RENAME COLUMN region TO place`,
		`ALTER TABLE {skald_outbox} DROP COLUMN place`,
		`ALTER PUBLICATION ` + sqlexec.Quoted(b.slot()) + ` SET TABLE {skald_outbox} (seq, id)`} {
		name := fmt.Sprint("change ", i)
		if err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
			b.say(t, name+" before")
			_, err := tx.Exec(t.Context(), b.q(change))
			if err == nil {
				_, err = tx.Exec(t.Context(),
					b.q(`INSERT INTO {skald_outbox} (topic, type, data) VALUES ('orders', 'said', to_json($1::text)::text)`), name)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "both are published",
			func() bool { return bus.has(`"`+name+`"`) && bus.has(`"`+name+` before"`) })
		eventually(t, "it rests", r.hears)
	}
}

// nth is a message of walSwitched: the n-th of a key.
type nth struct {
	Key string `json:"key"`
	N   int    `json:"n"`
}

// walSwitched alternates relays that read the slot and relays that poll, while writers commit in another
// order than they began, the slot is dropped and its reader's connection cut. The messages of each key come
// in order, except repeats, and none is missing.
func walSwitched(t *testing.T, b *bed) {
	t.Helper()
	bus := newTap(t)
	const keys, writers, turns = 5, 8, 6
	b.exec(t, `INSERT INTO {kv} SELECT n, '0' FROM generate_series(1, 5) AS n`)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := b.saySomething(keys); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for turn := range turns {
		r := b.reads(t, bus, fmt.Sprint("reads ", turn))
		p := b.polls(t, bus, fmt.Sprint("polls ", turn))
		eventually(t, "it listens, or is on standby", func() bool { h := r.Listening(); return h.Why == "" })
		for range rand.N(3) {
			b.exec(t, walsender, b.slot())
			_, _ = b.pool.Exec(context.Background(),
				`SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1 AND NOT active`, b.slot())
		}
		was := bus.distinct()
		eventually(t, "more is published", func() bool { return bus.distinct() > was+50 })
		if turn%2 == 0 {
			p()
			was = bus.distinct()
			eventually(t, "more is published", func() bool { return bus.distinct() > was+50 })
		}
		r.stop()
	}
	stop()
	wg.Wait()
	last := b.reads(t, bus, "last")
	total := one[int](t, b, `SELECT sum(value::integer) FROM {kv}`)
	eventually(t, "all is published", func() bool { return bus.distinct() == total })
	eventually(t, "it rests", last.hears)
	bus.inOrder(t)
}

// saySomething writes the next message of a key, after it locked the key's row. Its transaction gets its
// number before that, or after.
func (b *bed) saySomething(keys int) error {
	ctx := context.Background()
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		if rand.N(2) == 0 {
			if _, err := tx.Exec(ctx, `SELECT pg_current_xact_id()`); err != nil {
				return err
			}
		}
		pauseFor(rand.N(4 * time.Millisecond))
		_, err := tx.Exec(ctx,
			b.q(`WITH u AS (UPDATE {kv} SET value = (value::integer + 1)::text WHERE key = $1 RETURNING key, value)
			INSERT INTO {skald_outbox} (topic, key, type, data) SELECT 'orders', key, 'said', json_build_object('key', key, 'n', value::integer)::text FROM u`), fmt.Sprint(1+rand.N(keys)))
		pauseFor(rand.N(4 * time.Millisecond))
		return err
	})
}

// inOrder checks the messages of each key: each is a repeat or the next one.
func (p *tap) inOrder(t *testing.T) {
	t.Helper()
	last := map[string]int{}
	for i := range p.came {
		var s nth
		if err := json.Unmarshal(p.came[i].Data, &s); err != nil {
			t.Fatal(err)
		}
		switch {
		case s.N == last[s.Key]+1:
			last[s.Key] = s.N
		case s.N > last[s.Key]:
			t.Fatalf("key %s: number %d arrived after %d", s.Key, s.N, last[s.Key])
		}
	}
}

// polls starts a relay that polls.
func (b *bed) polls(t testing.TB, bus broker.Publisher, owner string) (stop func()) {
	t.Helper()
	r := relay.New(relay.Source(b.store(t)), bus,
		&relay.Options{Owner: owner, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// TestWALOn18 checks a slot that a standby can synchronize, from PostgreSQL 17.
func TestWALOn18(t *testing.T) {
	t.Parallel()
	b := on18(t)
	bus := newTap(t)
	r := b.reads(t, bus, "one")
	eventually(t, "it rests", r.hears)
	if !one[bool](t, b, `SELECT failover FROM pg_replication_slots WHERE slot_name = $1`, b.slot()) {
		t.Error("the slot is no failover slot")
	}
	b.say(t, "said")
	eventually(t, "it is published", func() bool { return bus.has(`"said"`) })
}

// TestWALInvalidated checks that a slot which the server invalidated, because it kept too much WAL, is
// created again, and that no row is lost.
func TestWALInvalidated(t *testing.T) {
	t.Parallel()
	c := need.NewCluster(t, "wal_level = logical", "max_slot_wal_keep_size = '1MB'", "wal_keep_size = 0",
		"max_wal_size = '32MB'", "min_wal_size = '32MB'")
	b := newBedAt(t, c.URL("postgres"))
	bus := newTap(t)
	r := b.reads(t, bus, "one")
	eventually(t, "it rests", r.hears)
	r.stop()
	for range 4 {
		c.SQL("postgres", "CREATE TABLE t AS SELECT 1", "DROP TABLE t", "SELECT pg_switch_wal()")
	}
	c.SQL("postgres", "CHECKPOINT")
	b.until(t, "the slot is invalid",
		`SELECT wal_status = 'lost' FROM pg_replication_slots WHERE slot_name = $1`, b.slot())
	b.say(t, "meanwhile")
	r = b.reads(t, bus, "two")
	eventually(t, "it is published", func() bool { return bus.has(`"meanwhile"`) })
	eventually(t, "it rests", r.hears)
	if !strings.Contains(r.log.String(), "invalidated") {
		t.Errorf("not in the log: %s", r.log)
	}
}

// TestWALPromoted promotes a standby without a slot: the relay polls, and is notified again when it has
// created a slot there.
func TestWALPromoted(t *testing.T) {
	t.Parallel()
	first := need.NewCluster(t, "wal_level = logical")
	second := first.Standby()
	both := fmt.Sprintf("postgres://postgres@127.0.0.1:%d,127.0.0.1:%d/postgres?sslmode=disable&target_session_attrs=read-write", first.Port, second.Port)
	b := newBedAt(t, both)
	bus := newTap(t)
	r := b.reads(t, bus, "one")
	eventually(t, "it rests", r.hears)
	b.say(t, "before")
	eventually(t, "it is published", func() bool { return bus.has(`"before"`) })
	at := one[string](t, b, `SELECT pg_current_wal_lsn()::text`)
	eventually(t, "the standby has it", func() bool {
		return strings.TrimSpace(second.SQL("postgres", fmt.Sprintf("SELECT pg_last_wal_replay_lsn() >= '%s'",
			at))) == "t"
	})
	first.Stop("immediate")
	second.Promote()
	eventually(t, "the new primary takes it", func() bool {
		_, err := b.pool.Exec(context.Background(),
			b.q(`INSERT INTO {skald_outbox} (topic, type, data) VALUES ('orders', 'said', '"after"')`))
		return err == nil
	})
	eventually(t, "it is published", func() bool { return bus.has(`"after"`) })
	eventually(t, "it rests again", r.hears)
	b.say(t, "later")
	eventually(t, "it is published", func() bool { return bus.has(`"later"`) })
}
