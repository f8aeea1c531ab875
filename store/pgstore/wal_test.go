package pgstore

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
)

// tap is a broker that records messages in order.
type tap struct {
	*membroker.Broker
	mu   sync.Mutex
	came []skald.Message
	data map[string]bool
}

func newTap(t testing.TB) *tap {
	t.Helper()
	p := &tap{Broker: membroker.New(nil), data: map[string]bool{}}
	if err := p.MakeTopics(t.Context(), 4, "orders"); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *tap) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	p.mu.Lock()
	p.came = append(p.came, msgs...)
	for i := range msgs {
		p.data[string(msgs[i].Data)] = true
	}
	p.mu.Unlock()
	return p.Broker.Publish(ctx, msgs, only...)
}

func (p *tap) has(data string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.data[data]
}

func (p *tap) distinct() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.data)
}

// looker counts the looks of a relay.
type looker struct {
	*WAL
	looks atomic.Int64
}

func (l *looker) Lease(ctx context.Context, ask store.LeaseRequest) (store.Leased, error) {
	if ask.SnapshotBase != nil {
		l.looks.Add(1)
	}
	return l.WAL.Lease(ctx, ask)
}

// hearer is a relay that is notified of commits.
type hearer struct {
	*looker
	relay *relay.Relay
	log   *heardLog
	stop  func()
}

// heardLog stores the log.
type heardLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *heardLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *heardLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (b *bed) slot() string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, b.schema)
}

// reads starts a relay that reads the bed's slot.
func (b *bed) reads(t testing.TB, bus broker.Publisher, owner string) *hearer {
	t.Helper()
	w, err := b.store(t).WAL(b.url, &WALOptions{Slot: b.slot()})
	if err != nil {
		t.Fatal(err)
	}
	r := &hearer{looker: &looker{WAL: w}, log: &heardLog{}}
	r.relay = relay.New(r.looker, bus, &relay.Options{Owner: owner,
		Logger: slog.New(slog.NewTextHandler(r.log, nil))})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.relay.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		r.stop()
		if t.Failed() {
			t.Logf("%s logged:\n%s", owner, r.log)
		}
	})
	return r
}

// until waits until a query returns true.
func (b *bed) until(t testing.TB, what, sql string, args ...any) {
	t.Helper()
	eventually(t, what, func() bool {
		var so bool
		if err := b.pool.QueryRow(context.Background(), b.q(sql), args...).Scan(&so); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return so
	})
}

func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !so(); {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		pauseFor(5 * time.Millisecond)
	}
}

func pauseFor(d time.Duration) { <-time.After(d) }

func (r *hearer) hears() bool { return r.Listening().Quiet }

func (b *bed) say(t testing.TB, data string) {
	t.Helper()
	b.exec(t,
		`INSERT INTO {skald_outbox} (topic, key, type, data) VALUES ('orders', $1, 'said', to_json($1::text)::text)`, data)
}

// TestWAL runs each case with its own tables on its own server, because slots belong to the server, and the
// doctor examines all of them.
func TestWAL(t *testing.T) {
	t.Parallel()
	c := need.NewCluster(t, "wal_level = logical", "fsync = off", "max_replication_slots = 20")
	for _, one := range []struct {
		name string
		run  func(*testing.T, *bed)
	}{
		{"rests", walRests}, {"slot dropped", walSlotDropped}, {"standby", walStandby},
		{"slot of a stranger", walSlotOfAStranger},
		{"quiet publication", walQuietPublication},
		{"publication without the table", walPublicationWithoutTheTable},
		{"without the right", walWithoutTheRight},
		{"a commit that is not visible", walCommitThatIsNotVisible},
		{"a large transaction", walLargeTransaction}, {"the table changes", walTableChanges},
		{"switched", walSwitched},
	} {
		t.Run(one.name, func(t *testing.T) { one.run(t, newBedAt(t, c.URL("postgres"))) })
	}
}

// walRests checks a relay that is notified of commits: it creates slot and publication, publishes commits
// of others, and does not poll while there are none.
func walRests(t *testing.T, b *bed) {
	t.Helper()
	bus := newTap(t)
	b.say(t, "before")
	r := b.reads(t, bus, "one")
	eventually(t, "what was there before is published", func() bool { return bus.has(`"before"`) })
	eventually(t, "it rests", func() bool { return r.hears() && r.relay.Health().Shards == 16 })
	for i := range 20 {
		said := fmt.Sprintf("%d", i)
		b.say(t, said)
		eventually(t, said, func() bool { return bus.has(`"` + said + `"`) })
	}
	eventually(t, "it rests", r.hears)
	renewed := func() string {
		return one[string](t, b, `SELECT max(until)::text FROM {skald_relay}`)
	}
	was, looks := renewed(), r.looks.Load()
	b.until(t, "three renewals of the lease",
		`SELECT max(until) > $1::timestamptz + interval '3 seconds' FROM {skald_relay}`, was)
	if n := r.looks.Load() - looks; n > 1 { // one may have been on its way
		t.Errorf("it looked %d times while nothing was committed", n)
	}
}

var _ relay.Listener = (*WAL)(nil)
