package relay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store/memstore"
)

// rough is a broker that answers late and with failures, but follows the publish contract. After a message
// that it does not accept, it accepts no more messages of the same key until the caller has taken the answer.
type rough struct {
	mu    sync.Mutex
	rng   *rand.Rand
	calm  bool
	log   []skald.Message
	held  map[string]int // keys that wait until a caller takes a failure
	until map[string]int // calls up to this one were made before the caller took the answer
	calls int
	queue chan *roughCall
}

type roughCall struct {
	r    *rough
	n    int
	msgs []skald.Message
	done chan struct{}
	err  error
	free func()
	once sync.Once
}

func newRough(t *testing.T, seed uint64) *rough {
	r := &rough{rng: rand.New(rand.NewPCG(seed, 1)), held: map[string]int{}, until: map[string]int{},
		queue: make(chan *roughCall, 100_000)}
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case c := <-r.queue:
				r.serve(c)
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() { close(stop) })
	return r
}

func (r *rough) Incarnation(context.Context) (string, error) { return "rough", nil }

func (r *rough) Topics(context.Context, ...string) (broker.Topics, error) { return nil, nil }

func (r *rough) Publish(_ context.Context, msgs []skald.Message, _ ...broker.Topics) broker.Pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	c := &roughCall{r: r, n: r.calls, msgs: slices.Clone(msgs), done: make(chan struct{})}
	r.queue <- c
	return c
}

func (r *rough) serve(c *roughCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer close(c.done)
	bad, mine := &broker.PublishError{Failed: map[int]error{}, Refused: map[int]error{}}, map[string]int{}
	fail := func(i int, key string, to map[int]error, why string) {
		to[i] = errors.New(why)
		r.held[key]++
		mine[key]++
	}
	outage := !r.calm && r.rng.IntN(15) == 0
	for i, m := range c.msgs {
		key := m.Topic + "\x00" + string(m.Key)
		switch n := r.rng.IntN(1000); {
		case r.held[key] > 0, c.n <= r.until[key]:
			fail(i, key, bad.Failed, "held back")
		case !r.calm && n < 8:
			fail(i, key, bad.Failed, "leader moved")
		case !r.calm && n < 14 || string(m.Data) == `"poison"` && !r.calm:
			fail(i, key, bad.Refused, "too large")
		case outage && n < 300:
			fail(i, key, bad.Failed, "gone")
		default:
			r.log = append(r.log, m)
		}
	}
	c.free = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for k, n := range mine {
			r.held[k] -= n
			r.until[k] = r.calls
		}
	}
	if outage {
		c.err = errors.New("connection reset")
	} else if len(mine) > 0 {
		c.err = bad
	}
}

func (c *roughCall) Done() <-chan struct{} { return c.done }

func (c *roughCall) Wait(ctx context.Context) error {
	select {
	case <-c.done:
		c.once.Do(c.free)
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *rough) calmDown() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calm = true
}

// check returns an error if a message was lost or the first deliveries of a key are not in the order of want.
func (r *rough) check(want map[string]int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := map[string]int{}
	for _, m := range r.log {
		var n int
		if _, err := fmt.Sscan(m.Subject, &n); err != nil {
			return err
		}
		key := string(m.Key)
		if n > next[key] {
			return fmt.Errorf("key %s: %d was delivered before %d", key, n, next[key])
		}
		if n == next[key] {
			next[key]++
		}
	}
	for key, n := range want {
		if next[key] != n {
			return fmt.Errorf("key %s: %d of %d delivered", key, next[key], n)
		}
	}
	return nil
}

func TestRelaysComeAndGoBeforeARoughBroker(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) { t.Parallel(); roughRun(t, seed) })
	}
}

func roughRun(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	db, bus := memstore.New(nil), newRough(t, seed)
	out := outbox.New(db, nil)
	start := func(owner string) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		r := relay.New(db.Session(), bus, &relay.Options{Owner: owner, TTL: 200 * time.Millisecond,
			Save:       20 * time.Millisecond,
			DeferFirst: 5 * time.Millisecond, DeferMost: 20 * time.Millisecond,
			RetryMost: 20 * time.Millisecond, InFlight: 300,
			Logger: slog.New(slog.DiscardHandler)})
		go func() { ended <- r.Run(ctx) }()
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	want := map[string]int{}
	stopA := start("a")
	for round := range 60 {
		var stopB func()
		if round%4 == 1 {
			stopB = start(fmt.Sprint("b", round))
		}
		for range 5 {
			tx := db.BeginTx()
			for range 1 + rng.IntN(5) {
				key := fmt.Sprint("k", rng.IntN(12))
				d := skald.Draft{Topic: "t", Type: "said", Key: []byte(key), Subject: fmt.Sprint(want[key]),
					Value: "fine"}
				if rng.IntN(40) == 0 {
					d.Value = "poison"
				}
				want[key]++
				if err := out.Write(t.Context(), tx, d); err != nil {
					t.Fatal(err)
				}
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		if round%10 == 7 {
			stopA()
			stopA = start("a")
		}
		if stopB != nil {
			stopB()
		}
	}
	bus.calmDown()
	deadline := time.Now().Add(5 * time.Minute)
	for bus.check(want) != nil && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	if err := bus.check(want); err != nil {
		t.Error(err)
	}
	stopA()
	for _, l := range db.Shards() {
		if l.Token == "" {
			t.Errorf("shard %d was never owned", l.ID)
		}
	}
}

// TestOptionBelowZero checks that Run refuses an option below zero, and names the option.
func TestOptionBelowZero(t *testing.T) {
	for name, o := range map[string]relay.Options{"TTL": {TTL: -1}, "MaxBytes": {MaxBytes: -1},
		"InFlight": {InFlight: -1}, "DeferFirst": {DeferFirst: -1}, "Save": {Save: -1},
		"Drain": {Drain: -1}} {
		err := relay.New(memstore.New(nil), &rough{}, &o).Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "relay.Options."+name+" is below zero") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
