package relay_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// fleet is a set of relays in other processes than the writer's, so a write does not wake the relays. The
// fleet runs in a synctest bubble, so the test measures only the relays' own timing, on any machine.
type fleet struct {
	t     *testing.T
	db    *memstore.Store // the writer's
	out   *outbox.Outbox[*memstore.Tx]
	bus   *arrivals
	asked atomic.Int64
	saved atomic.Int64 // of these, writes of progress
	rows  atomic.Int64 // shards in these writes
	all   []*instance

	outboxes int
}

type instance struct {
	relay *relay.Relay
	kill  func() // simulates a crash: no more calls or answers
	stop  context.CancelFunc
	ended chan error
}

// counted is one process's view of the database. It counts the queries.
type counted struct {
	relay.Source // hides the other methods of the store
	asked, saved *atomic.Int64
	rows         *atomic.Int64
	dead         atomic.Bool
}

func (c *counted) ask() error {
	if c.dead.Load() {
		return context.DeadlineExceeded
	}
	c.asked.Add(1)
	return nil
}

func (c *counted) Lease(ctx context.Context, ask store.LeaseRequest) (store.Leased, error) {
	if err := c.ask(); err != nil {
		return store.Leased{}, err
	}
	return c.Source.Lease(ctx, ask)
}

func (c *counted) Deferred(ctx context.Context, q store.DeferredQuery) (store.Deferred, error) {
	if err := c.ask(); err != nil {
		return store.Deferred{}, err
	}
	return c.Source.Deferred(ctx, q)
}

func (c *counted) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	if err := c.ask(); err != nil {
		return nil, err
	}
	c.saved.Add(1)
	c.rows.Add(int64(len(es)))
	return c.Source.Apply(ctx, es...)
}

// arrivals reports when each message reaches the broker.
type arrivals struct {
	*membroker.Broker
	came chan time.Time
}

func (a *arrivals) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	p := a.Broker.Publish(ctx, msgs, only...)
	for range msgs {
		a.came <- time.Now()
	}
	return p
}

// inFleet starts n relays, and calls f when each shard has an owner and nothing has been written for a long
// time.
func inFleet(t *testing.T, n int, f func(*fleet)) { inFleetOf(t, n, 1, f) }

// inFleetOf is like inFleet, with several outboxes in each process.
func inFleetOf(t *testing.T, n, outboxes int, f func(*fleet)) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New(nil)
		a := &fleet{t: t, db: db, out: outbox.New(db, nil),
			bus: &arrivals{membroker.New(nil), make(chan time.Time, 1000)}, outboxes: outboxes}
		if err := a.bus.MakeTopics(t.Context(), 4, "orders"); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			a.start(fmt.Sprintf("relay-%03d", i))
		}
		time.Sleep(2 * time.Minute) // of the bubble's time
		if owned := a.owned(); owned != 16 {
			t.Fatalf("%d shards have an owner", owned)
		}
		f(a)
		for _, i := range a.all {
			i.stop()
			if err := <-i.ended; err != nil {
				t.Error(err)
			}
		}
	})
}

func (a *fleet) start(owner string) {
	src := &counted{Source: a.db, asked: &a.asked, saved: &a.saved, rows: &a.rows}
	i := &instance{relay: relay.New(src, a.bus, &relay.Options{Owner: owner, Outboxes: a.outboxes,
		Drain: time.Second, Logger: slog.New(slog.DiscardHandler)}), ended: make(chan error, 1)}
	i.kill = func() { src.dead.Store(true) }
	ctx, stop := context.WithCancel(a.t.Context())
	i.stop = stop
	go func() {
		i.ended <- i.relay.Run(ctx)
		close(i.ended)
	}()
	a.all = append(a.all, i)
}

// owned counts the shards of live relays.
func (a *fleet) owned() (n int) {
	for _, i := range a.all {
		n += i.relay.Health().Shards
	}
	return n
}

func (a *fleet) write(key string) {
	tx := a.db.BeginTx()
	if err := a.out.Write(a.t.Context(), tx, skald.Draft{Topic: "orders", Key: []byte(key), Type: "said",
		Value: key}); err != nil {
		a.t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		a.t.Fatal(err)
	}
}

// delay returns the time from a commit to its message's arrival.
func (a *fleet) delay(key string) time.Duration {
	a.write(key)
	from := time.Now()
	return (<-a.bus.came).Sub(from)
}

// p50 returns the median delay of n messages, written one after the other.
func (a *fleet) p50(n int, gap func(i int) time.Duration) time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		time.Sleep(gap(i))
		all[i] = a.delay(fmt.Sprint("key-", i))
	}
	slices.Sort(all)
	return all[n/2]
}

// TestIdleBudget checks the number of queries to an idle database, and the delay of a message.
func TestIdleBudget(t *testing.T) {
	for _, c := range []struct {
		relays int
		asked  float64 // a second, at most
		p50    time.Duration
	}{{1, 10, 60 * time.Millisecond}, {4, 10, 250 * time.Millisecond}, {20, 20, time.Second},
		{200, 20, time.Second}} {
		t.Run(fmt.Sprint(c.relays), func(t *testing.T) {
			inFleet(t, c.relays, func(a *fleet) {
				const seconds = 120
				before, saved := a.asked.Load(), a.saved.Load()
				time.Sleep(seconds * time.Second)
				if n := a.saved.Load() - saved; n > 0 {
					t.Errorf("idle relays wrote their progress %d times", n)
				}
				asked := float64(a.asked.Load()-before) / seconds
				p50 := a.p50(31,
					func(i int) time.Duration {
						return 30*time.Second +
							time.Duration(i)*64_893*time.Microsecond
					})
				t.Logf("%.1f questions a second, p50 %v from idle", asked, p50)
				if asked > c.asked || p50 > c.p50 {
					t.Errorf("an idle database is queried %.1f times a second, at most %v; a message waits %v, at most %v", asked, c.asked, p50, c.p50)
				}
			})
		})
	}
}

// TestIdleOutboxes checks the queries of one process with a relay for each of several outboxes, and the delay
// of a message.
func TestIdleOutboxes(t *testing.T) {
	for _, c := range []struct {
		outboxes int
		asked    float64 // a second, by all of them
		p50      time.Duration
	}{{1, 10, 60 * time.Millisecond}, {3, 11, 200 * time.Millisecond}, {10, 13, 600 * time.Millisecond},
		{50, 62, 600 * time.Millisecond}} {
		t.Run(fmt.Sprint(c.outboxes), func(t *testing.T) {
			inFleetOf(t, 1, c.outboxes, func(a *fleet) {
				const seconds = 120
				before := a.asked.Load()
				time.Sleep(seconds * time.Second)
				asked := float64(a.asked.Load()-before) / seconds * float64(c.outboxes)
				p50 := a.p50(31,
					func(i int) time.Duration {
						return 30*time.Second +
							time.Duration(i)*64_893*time.Microsecond
					})
				t.Logf("%.1f questions a second, p50 %v from idle", asked, p50)
				if asked > c.asked || p50 > c.p50 {
					t.Errorf("an idle database is queried %.1f times a second, at most %v; a message waits %v, at most %v", asked, c.asked, p50, c.p50)
				}
			})
		})
	}
}

// TestBusyDelay checks the delay of a message while there is one at least every second.
func TestBusyDelay(t *testing.T) {
	inFleet(t, 1, func(a *fleet) {
		gap := func(i int) time.Duration {
			return 300*time.Millisecond + time.Duration(i)*7001*time.Microsecond
		}
		if p50 := a.p50(99, gap); p50 > 30*time.Millisecond {
			t.Errorf("p50 %v", p50)
		}
	})
}

// TestBusyProgress checks that a shard's row is written, and at most twice a second for any number of
// messages.
func TestBusyProgress(t *testing.T) {
	for _, relays := range []int{1, 4} {
		inFleet(t, relays, func(a *fleet) {
			before, from := a.rows.Load(), time.Now()
			for i := range 1000 {
				a.write(fmt.Sprint("key-", i%97))
				<-a.bus.came
				time.Sleep(20 * time.Millisecond)
			}
			perShard, seconds := float64(a.rows.Load()-before)/16, time.Since(from).Seconds()
			t.Logf("%d relays: a shard is written %.1f times in %.1f s", relays, perShard, seconds)
			if perShard > 2*seconds+1 || perShard < seconds/2 { // the first write has no delay
				t.Errorf("%d relays: a shard is written %.1f times in %.1f s", relays, perShard, seconds)
			}
		})
	}
}

// TestRollingDeploy replaces each of twenty instances. The shards of an instance that stops cleanly continue
// within a second, those of a crashed one within ten.
func TestRollingDeploy(t *testing.T) {
	const n = 20
	for name, most := range map[string]time.Duration{"clean": time.Second, "killed": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, n, func(a *fleet) {
				var longest time.Duration
				defer func() { t.Logf("at most %v", longest) }()
				for i := range n {
					old, from := a.all[i], time.Now()
					if name == "killed" {
						old.kill()
					}
					old.stop()
					if err := <-old.ended; err != nil {
						t.Error(err)
					}
					gone := time.Now()
					if name == "killed" {
						gone = from
					}
					for a.owned() != 16 && time.Since(gone) < time.Minute {
						time.Sleep(10 * time.Millisecond)
					}
					took := time.Since(gone)
					if longest = max(longest, took); took > most {
						t.Errorf("the shards of instance %d continue after %v", i, took)
					}
					a.start(fmt.Sprintf("relay-new-%03d", i))
					time.Sleep(5 * time.Second)
				}
			})
		})
	}
}
