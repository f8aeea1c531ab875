package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

type outsideCall = inbox.Call[*memstore.Tx, string, string, string]

// A calls is a world of one consumer in two processes, which asks a bank outside; somebody wants one of its messages undone while it
// is not known what became of it.
type calls struct {
	w    *sagatest.World
	db   *memstore.Store
	bank *tellers
	bug  func(p *sagatest.Process, c *outsideCall)
	fail int // settlings that are still to fail
}

// tellers is the bank: it knows keys again, and has a ledger.
type tellers struct {
	ledger  map[string]int
	refused map[string]bool // by key
}

var errNoMoney = errors.New("no money")

func (b *tellers) charge(key string) error {
	switch {
	case b.refused[key] || strings.HasPrefix(key, "r"):
		b.refused[key] = true
		return skald.Reject(errNoMoney)
	case b.ledger[key] == 0:
		b.ledger[key]++
	}
	return nil
}

func (b *tellers) cancel(key string) (done bool) {
	if b.ledger[key] == 0 {
		b.refused[key] = true
	}
	return b.ledger[key] > 0
}

// Of each key; r is refused, x is to be undone.
func (c *calls) texts() []string { return []string{"a1", "a2", "r1", "b1", "x1", "r2", "a3"} }

func buildCalls(bug func(p *sagatest.Process, c *outsideCall)) func(*sagatest.World) error {
	return func(w *sagatest.World) error {
		c := &calls{w: w, bug: bug, fail: 1, bank: &tellers{ledger: map[string]int{}, refused: map[string]bool{}}}
		c.db = memstore.New(&memstore.Options{Source: "/consumer", Now: w.Now})
		bus := membroker.New(nil)
		if err := bus.MakeTopics(context.Background(), 1, "orders"); err != nil {
			return err
		}
		for i, text := range c.texts() {
			m := skald.Message{ID: fmt.Sprintf("m-%02d", i), Source: "/other", Type: "said", Topic: "orders", Key: []byte(text[:1]), Data: fmt.Appendf(nil, "%q", text)}
			if err := bus.Publish(context.Background(), []skald.Message{m}).Wait(context.Background()); err != nil {
				return err
			}
		}
		for _, name := range []string{"one", "two"} {
			w.Process(name, func(p *sagatest.Process) error { return c.life(p, name, bus) })
		}
		w.Process("undoer", func(p *sagatest.Process) error {
			session := c.db.Session()
			p.OnCrash(session.Kill)
			p.Step(&undoer{c, sagatest.CrashDriver(p, db(session))})
			return nil
		})
		w.Finally("each_once_in_order", c.inOrder)
		w.Finally("moved_once", c.moved)
		w.Finally("nothing_kept", func() error { return (&parking{db: c.db}).empty() })
		return nil
	}
}

func (c *calls) life(p *sagatest.Process, name string, bus *membroker.Broker) error {
	session := c.db.Session()
	p.OnCrash(session.Kill)
	in := inbox.New(sagatest.CrashDriver(p, db(session)), sagatest.CrashBroker(p, bus.Client()), "consumer", &inbox.Options{
		Now: c.w.Now, NewID: c.w.NewID, Logger: slog.New(slog.DiscardHandler), Member: name, Wait: time.Millisecond, Handle: time.Second,
		RetryFirst: time.Microsecond, RetryMost: time.Millisecond, Attempts: 9,
	})
	how := c.how(p)
	if c.bug != nil {
		c.bug(p, &how)
	}
	inbox.OnCall(in, skald.Event[string]{Topic: "orders", Type: "said"}, how)
	p.Step(in)
	return nil
}

// how is the call as it should be. Each request is an I/O: the process dies before and behind it, is paused, or hears of an error.
func (c *calls) how(p *sagatest.Process) outsideCall {
	return outsideCall{
		At: inbox.NewProvider("bank", &inbox.ProviderOptions{Timeout: time.Second}),
		Intent: func(_ context.Context, _ *memstore.Tx, m skald.Received[string]) (string, string, error) {
			return m.Value, m.Value, nil
		},
		Do: func(_ context.Context, _, key string) (string, error) {
			return "receipt", p.IO("charge "+key, func() error { return c.bank.charge(key) })
		},
		LookUp: func(_ context.Context, _, key string) (out string, found bool, err error) {
			err = p.IO("look up "+key, func() error {
				found = c.bank.ledger[key] > 0
				return nil
			})
			return "receipt", found, err
		},
		Cancel: func(_ context.Context, _, key string) (out string, done bool, err error) {
			err = p.IO("cancel "+key, func() error {
				done = c.bank.cancel(key)
				return nil
			})
			return "receipt", done, err
		},
		Settle: func(_ context.Context, tx *memstore.Tx, m skald.Received[string], o inbox.Outcome[string]) error {
			if c.fail--; c.fail == 0 {
				return errors.New("not yet")
			}
			what := m.Value + " "
			if o.Refused {
				what = m.Value + ":no "
			}
			return tx.Update(string(m.Key), func(old string, _ bool) string { return old + what })
		},
	}
}

// An undoer wants what is under way for x undone, as soon as it is known.
type undoer struct {
	c  *calls
	db db
}

func (u *undoer) Step(ctx context.Context) (bool, error) {
	kept, err := u.db.Kept(ctx, store.Sought{Key: []byte("x")}, 1)
	if err != nil || len(kept) == 0 || kept[0].Call == nil || kept[0].Call.Undo {
		return false, err
	}
	p := kept[0]
	p.Call.Undo = true                                                 // due as it is: its claim stands
	unit, err := u.db.Begin(ctx, store.Intake{Wait: time.Millisecond}) // who is paused may have it in hand; that is not waited for in real time
	if err != nil {
		return false, err
	}
	err = unit.Commit(ctx, store.Effect{Keep: &store.Keep{Parked: p, Was: &p.Attempts}})
	return err == nil, err
}

// inOrder is the oracle: which effects each key must have.
func (c *calls) inOrder() error {
	user := c.db.User()
	for key, want := range map[string]string{"a": "a1 a2 a3", "b": "b1", "r": "r1:no r2:no"} {
		if got := strings.TrimSpace(user[key]); got != want {
			return fmt.Errorf("%s has %q, want %q", key, got, want)
		}
	}
	if got := strings.TrimSpace(user["x"]); got != "x1" && got != "x1:no" {
		return fmt.Errorf("x has %q", got)
	}
	return nil
}

// moved holds the bank's ledger against what the consumer knows: each move once, none that it does not know of.
func (c *calls) moved() error {
	known := map[string]int{}
	for _, effects := range c.db.User() {
		for _, e := range strings.Fields(effects) {
			if !strings.HasSuffix(e, ":no") {
				known[e]++
			}
		}
	}
	if !maps.Equal(known, c.bank.ledger) {
		return fmt.Errorf("the bank moved %v, the consumer knows of %v", c.bank.ledger, known)
	}
	return nil
}

// Every I/O of calls to the outside, the requests too, and everything that can go wrong at it: deaths between any two phases, answers
// that are lost, senders that wake long after others have taken their message on.
// Interleaving 8.
func TestExploreCallsEverySingleFault(t *testing.T) {
	sagatest.Explore(t, buildCalls(nil), &sagatest.Options{Rest: 60 * time.Second, Sample: sampled(400), Failures: 3})
}

// Each bug is a safeguard of calls taken away, or what is done in its place without Skald.
// Interleaving 8.
func TestSeededBugsOfCalls(t *testing.T) {
	tries := 0
	for name, b := range map[string]struct {
		bug   func(p *sagatest.Process, c *outsideCall)
		found string
	}{
		"a look-up that finds nothing is taken for proof": {func(_ *sagatest.Process, c *outsideCall) {
			look := c.LookUp
			c.LookUp = func(ctx context.Context, req, key string) (string, bool, error) {
				out, found, err := look(ctx, req, key)
				if err == nil && !found {
					err = skald.Reject(errors.New("nothing was done"))
				}
				return out, found, err
			}
		}, "moved_once"},
		"a look-up for a cancel: the key is not used up": {func(_ *sagatest.Process, c *outsideCall) { c.Cancel = c.LookUp }, "moved_once"},
		"no answer is taken for a no": {func(_ *sagatest.Process, c *outsideCall) {
			do := c.Do
			c.Do = func(ctx context.Context, req, key string) (string, error) {
				out, err := do(ctx, req, key)
				if err != nil {
					err = skald.Reject(err)
				}
				return out, err
			}
		}, "moved_once"},
		"a new key for each try": {func(p *sagatest.Process, c *outsideCall) {
			c.LookUp = nil
			do := c.Do
			c.Do = func(ctx context.Context, req, key string) (string, error) {
				if tries++; tries > len("a1a2b1x1a3r1r2")/2 { // the bank knows the first of each under its own
					key += "-again"
				}
				return do(ctx, req, key)
			}
		}, "moved_once"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := sagatest.Search(t.Context(), buildCalls(b.bug), &sagatest.Options{Rest: 60 * time.Second, Failures: 20})
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(r.Failures, func(f sagatest.Failure) bool { return foundBy(f, b.found) != "" && len(f.Schedule) > 0 })
			if i < 0 {
				t.Fatalf("%s does not find it: %v", b.found, r)
			}
			t.Logf("%v in %d schedules: %s", r.Failures[i].Schedule, r.Schedules, foundBy(r.Failures[i], b.found))
		})
	}
}
