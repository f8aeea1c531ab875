package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

type (
	db   = store.Driver[*memstore.Tx]
	said struct{ N int }
)

// chain has three services, which run by Run. The second service forwards the messages of the first one to
// the third. Faults end each service, and it restarts.
type chain struct {
	t      *testing.T
	faults *sagatest.Faults
	dbs    map[string]*memstore.Store
	said   int
	bus    *membroker.Broker
	spoil  func(service string, d db, b broker.Broker, session *sagatest.Faults) (db, broker.Broker)
	wg     sync.WaitGroup
	stop   context.CancelFunc
}

func newChain(t *testing.T, f *sagatest.Faults) *chain {
	c := &chain{t: t, faults: f, dbs: map[string]*memstore.Store{}, bus: membroker.New(nil)}
	for _, name := range []string{"one", "two", "three"} {
		c.dbs[name] = memstore.New(&memstore.Options{Source: "/" + name, Shards: 4})
	}
	if err := c.bus.MakeTopics(t.Context(), 3, "first", "second"); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *chain) start() {
	ctx, stop := context.WithCancel(c.t.Context())
	c.stop = stop
	for name := range c.dbs {
		c.wg.Go(func() {
			for ctx.Err() == nil {
				c.live(ctx, name)
			}
		})
	}
}

func (c *chain) end() {
	c.stop()
	c.wg.Wait()
}

// live runs one session of a service.
func (c *chain) live(ctx context.Context, name string) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	session := c.faults.Session()
	go func() {
		select {
		case <-session.Died():
			stop()
		case <-ctx.Done():
		}
	}()
	bus := sagatest.WrapBroker(c.bus.Client(), session)
	d := sagatest.WrapDriver[*memstore.Tx](c.dbs[name].Session(), session)
	if c.spoil != nil {
		d, bus = c.spoil(name, d, bus, session)
	}
	quiet := slog.New(slog.DiscardHandler)
	out := outbox.New(d, nil)
	runners := []skald.Runner{relay.New(d, bus, &relay.Options{Owner: name, Logger: quiet,
		Save: time.Millisecond, Drain: time.Second, MaxPollInterval: 10 * time.Millisecond})}
	if name != "one" {
		in := inbox.New(d, bus, name, &inbox.Options{Instance: inbox.Instance{Member: name}, Logger: quiet,
			Retry: inbox.Retry{InitialInterval: time.Millisecond, MaxInterval: 20 * time.Millisecond,
				Crashes: 1000}, // deaths are random
			// the wait for claims of a dead session that had no partition
			Timeouts: inbox.Timeouts{Drain: time.Second, Wait: time.Second, Handle: 3 * time.Second}})
		from, to := "first", "second"
		if name == "three" {
			from, to = to, ""
		}
		inbox.On(in, skald.Event[said]{Topic: from, Type: "said"},
			func(ctx context.Context, tx *memstore.Tx, m skald.Received[said]) error {
				return note(ctx, tx, out, to, m)
			})
		runners = append(runners, in)
	}
	if err := skald.Run(ctx, runners...); err != nil && ctx.Err() == nil {
		c.t.Errorf("%s: %v", name, err)
	}
	if err := bus.Close(); err != nil && !errors.Is(err, broker.ErrClosed) {
		c.t.Errorf("%s: close: %v", name, err)
	}
}

// note counts the effect, stores the latest message of each key, and emits to the next service.
func note(ctx context.Context, tx *memstore.Tx, out *outbox.Outbox[*memstore.Tx], to string,
	m skald.Received[said]) error {
	err := tx.Update(fmt.Sprint("effects/", m.Value.N), func(old string, _ bool) string {
		n, _ := strconv.Atoi(old)
		return strconv.Itoa(n + 1)
	})
	if err != nil {
		return err
	}
	if err := tx.Update("last/"+string(m.Key),
		func(old string, _ bool) string { return old + "," + strconv.Itoa(m.Value.N) }); err != nil {
		return err
	}
	if to == "" {
		return nil
	}
	return out.Write(ctx, tx, skald.Event[said]{Topic: to, Type: "said"}.New(string(m.Key), m.Value))
}

const chainKeys = 7

// say writes n further messages, each in its own transaction.
func (c *chain) say(n int) {
	d := c.dbs["one"]
	var w db = d
	if c.spoil != nil {
		w, _ = c.spoil("one", d, sagatest.WrapBroker(c.bus, c.faults), c.faults)
	}
	out := outbox.New(w, nil)
	for range n {
		tx := d.BeginTx()
		key := fmt.Sprint("k", c.said%chainKeys)
		if err := out.Write(c.t.Context(), tx, skald.Event[said]{Topic: "first", Type: "said"}.New(key,
			said{c.said})); err != nil {
			c.t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			c.t.Fatal(err)
		}
		c.said++
	}
}

// wrong counts the errors in a service's data: messages without an effect although a later message of their
// key has one, messages with two effects, and messages without an effect so far.
func (c *chain) wrong(name string) (lost, doubled, open int) {
	user := c.dbs[name].User()
	for k := range chainKeys {
		last := -1
		for _, text := range strings.Split(user[fmt.Sprint("last/k", k)], ",") {
			if i, err := strconv.Atoi(text); err == nil {
				lost += max(0, (i-last-1)/chainKeys)
				last = max(last, i)
			}
		}
	}
	for i := range c.said {
		switch user[fmt.Sprint("effects/", i)] {
		case "":
			open++
		case "1":
		default:
			doubled++
		}
	}
	return lost, doubled, open
}

// until polls until a condition holds.
func until(done func() bool) bool {
	for deadline := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		if done() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

func kinds() []string {
	return []string{
		sagatest.BeginFailed, sagatest.CommitFailed, sagatest.CommitUnknown, sagatest.ApplyUnknown,
		sagatest.TickUnknown,
		sagatest.SlowConsumer, sagatest.PublishFailed, sagatest.PublishUnknown, sagatest.ReceiveFailed,
		sagatest.Repeated,
		sagatest.Rewound, sagatest.Delayed, sagatest.AckLost, sagatest.AckUnknown, sagatest.Death,
	}
}

func restless() sagatest.Rates {
	r := sagatest.Wild()
	r.Die, r.SlowFor, r.DelayFor = 0.003, 5*time.Millisecond, 20*time.Millisecond
	return r
}

// TestFaultsLoseNoMessage: the wrappers inject all their faults into services under Run, and no message is
// lost or doubled.
func TestFaultsLoseNoMessage(t *testing.T) {
	f := sagatest.NewFaults(7, restless())
	c := newChain(t, f)
	c.start()
	missing := kinds()
	for len(missing) > 0 && c.said < 20_000 {
		c.say(50)
		if !until(func() bool {
			_, _, two := c.wrong("two")
			_, _, three := c.wrong("three")
			return two+three == 0
		}) {
			break
		}
		counts := f.Counts()
		missing = slices.DeleteFunc(missing, func(kind string) bool { return counts[kind] > 0 })
	}
	c.end()
	for _, name := range []string{"two", "three"} {
		if lost, doubled, open := c.wrong(name); lost+doubled+open > 0 {
			t.Errorf("%s: %d lost or out of order, %d doubled, %d never came", name, lost, doubled, open)
		}
	}
	t.Logf("%d messages, %v", c.said, f)
	if len(missing) > 0 {
		t.Errorf("never injected: %v", missing)
	}
}

// TestSabotageDoesHarm checks that the same chain loses or repeats messages if a safeguard is removed.
func TestSabotageDoesHarm(t *testing.T) {
	for name, spoil := range map[string]func(string, db, broker.Broker, *sagatest.Faults) (db, broker.Broker){
		"no-mark": func(_ string, d db, b broker.Broker, _ *sagatest.Faults) (db, broker.Broker) {
			return sagatest.NoMark(d), b
		},
		"ack-first": func(_ string, d db, b broker.Broker, _ *sagatest.Faults) (db, broker.Broker) {
			return d, sagatest.AckFirst(b)
		},
		"dual-write": func(service string, d db, b broker.Broker, _ *sagatest.Faults) (db, broker.Broker) {
			return sagatest.DualWrite(d, b, "/"+service), b
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChain(t, sagatest.NewFaults(3, restless()))
			c.spoil = spoil
			c.start()
			harm := until(func() bool {
				c.say(20)
				lost, doubled, _ := c.wrong("three")
				return name == "no-mark" && doubled > 0 || name != "no-mark" && lost > 0
			})
			c.end()
			if !harm {
				t.Errorf("no harm in %d messages", c.said)
			}
		})
	}
}
