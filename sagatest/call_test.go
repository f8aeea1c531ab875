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
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

type outsideCall[TTx any] = call.Call[TTx, string, string, string]

// calls is a world with one consumer in two processes that send requests to an external bank. The call for
// one message must be undone while its outcome is unknown.
type calls[TTx any] struct {
	w     *sagatest.World
	on    *ground[TTx]
	bank  *tellers
	bug   func(w *calls[TTx], c *outsideCall[TTx])
	fail  int            // number of Settle calls that fail
	tries map[string]int // for a bug

	handle time.Duration // timeout of a handler, and so of a lease
}

// tellers is a bank with a ledger that deduplicates by key.
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

// texts returns the messages of each key. The bank refuses those of key r, and the call for key x must be
// undone.
func (c *calls[TTx]) texts() []string { return []string{"a1", "a2", "r1", "b1", "x1", "r2", "a3"} }

func buildCalls[TTx any](open opening[TTx],
	bug func(w *calls[TTx], c *outsideCall[TTx])) func(*sagatest.World) error {
	return buildCallsFor(time.Second, open, bug)
}

func buildCallsFor[TTx any](handle time.Duration, open opening[TTx],
	bug func(w *calls[TTx], c *outsideCall[TTx])) func(*sagatest.World) error {
	return func(w *sagatest.World) error {
		on, err := open(w)
		if err != nil {
			return err
		}
		c := &calls[TTx]{w: w, on: on, bug: bug, fail: 1, handle: handle,
			bank: &tellers{ledger: map[string]int{}, refused: map[string]bool{}}, tries: map[string]int{}}
		bus := membroker.New(nil)
		if err := bus.MakeTopics(context.Background(), 1, "orders"); err != nil {
			return err
		}
		for i, text := range c.texts() {
			m := skald.Message{ID: fmt.Sprintf("m-%02d", i), Source: "/other", Type: "said", Topic: "orders",
				Key: []byte(text[:1]), Data: fmt.Appendf(nil, "%q", text)}
			if err := bus.Publish(context.Background(),
				[]skald.Message{m}).Wait(context.Background()); err != nil {
				return err
			}
		}
		for _, name := range []string{"one", "two"} {
			w.Process(name, func(p *sagatest.Process) error { return c.session(p, name, bus) })
		}
		w.Process("undoer", func(p *sagatest.Process) error {
			p.Step(&undoer[TTx]{on.session(p)})
			return nil
		})
		w.Finally("each_once_in_order", c.inOrder)
		w.Finally("moved_once", c.moved)
		w.Finally("nothing_kept", func() error { return empty(on.raw) })
		return nil
	}
}

func (c *calls[TTx]) session(p *sagatest.Process, name string, bus *membroker.Broker) error {
	in := inbox.New(c.on.session(p), sagatest.CrashBroker(p, bus.Client()), "consumer", &inbox.Options{
		Now: c.w.Now, NewID: c.w.NewID, Logger: slog.New(slog.DiscardHandler),
		Instance: inbox.Instance{Member: name},
		Timeouts: inbox.Timeouts{Wait: time.Millisecond, Handle: c.handle},
		Retry:    inbox.Retry{InitialInterval: time.Microsecond, MaxInterval: time.Millisecond, Attempts: 9},
	})
	how := c.how(p)
	if c.bug != nil {
		c.bug(c, &how)
	}
	inbox.OnCall(in, skald.Event[string]{Topic: "orders", Type: "said"}, how)
	p.Step(in)
	return nil
}

// how returns the correct call. Each of its requests is an I/O: the process may die before or after the
// request, pause, or get an error.
func (c *calls[TTx]) how(p *sagatest.Process) outsideCall[TTx] {
	return outsideCall[TTx]{
		At: call.NewProvider("bank", &call.ProviderOptions{Timeout: time.Second}),
		Intent: func(_ context.Context, _ TTx, m skald.Received[string]) (string, string, error) {
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
		Settle: func(_ context.Context, tx TTx, m skald.Received[string], o call.Outcome[string]) error {
			if c.fail--; c.fail == 0 {
				return errors.New("not yet")
			}
			what := m.Value + " "
			if o.Refused {
				what = m.Value + ":no "
			}
			return c.on.update(tx, string(m.Key), func(old string) string { return old + what })
		},
	}
}

// undoer requests the undo of the call for x, as soon as its outcome is known.
type undoer[TTx any] struct{ db store.Driver[TTx] }

func (u *undoer[TTx]) Step(ctx context.Context) (bool, error) {
	kept, err := store.ListParked(ctx, u.db, store.ParkedQuery{Key: []byte("x"), Limit: 1})
	if err != nil || len(kept) == 0 || kept[0].Call == nil || kept[0].Call.Undo {
		return false, err
	}
	p := kept[0]
	p.Call.Undo = true // its claim and due time are unchanged
	// A paused process may have the message, and the test must not wait for that process in real time.
	unit, err := u.db.Begin(ctx, store.Intake{Wait: time.Millisecond})
	if err != nil {
		return false, err
	}
	err = unit.Commit(ctx, store.Effect{Park: &store.Park{Parked: p, Was: &p.Attempts, WasCall: p.Call.Key}})
	return err == nil, err
}

// inOrder checks the effects of each key.
func (c *calls[TTx]) inOrder() error {
	user, err := c.on.user()
	if err != nil {
		return err
	}
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

// moved compares the bank's ledger with the consumer's data. Each transfer must have happened once, and the
// consumer must know all of them.
func (c *calls[TTx]) moved() error {
	known := map[string]int{}
	user, err := c.on.user()
	if err != nil {
		return err
	}
	for _, effects := range user {
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

// TestExploreCallsEverySingleFault injects each fault at each I/O of external calls, including the
// requests: crashes between any two phases, lost answers, and senders that continue long after another
// process has taken their message over.
// Interleaving 8.
func TestExploreCallsEverySingleFault(t *testing.T) {
	sagatest.Explore(t, buildCalls(inMemory, nil),
		&sagatest.Options{Rest: 60 * time.Second, Sample: sampled(400), Failures: 3})
}

// TestExploreCallsOfADeadProcess: if a process dies, the next owner of its shard continues the claimed
// messages and the calls of the process. Leases last for days here, but the world is idle within a minute,
// with nothing parked. (A process that never had a shard is an exception.)
// Interleaving 8.
func TestExploreCallsOfADeadProcess(t *testing.T) {
	sagatest.Explore(t, buildCallsFor(100*time.Hour, inMemory, nil),
		&sagatest.Options{Rest: 60 * time.Second, Sample: sampled(200), Failures: 3,
			Modes: []sagatest.Mode{sagatest.CrashBefore, sagatest.CrashAfter}})
}

// TestSeededBugsOfCalls: each bug removes a safeguard of calls, or is a usual substitute without Skald.
// Interleaving 8.
func TestSeededBugsOfCalls(t *testing.T) {
	for name, b := range map[string]struct {
		mode sagatest.Mode // the mode that shows it
		bug  func(w *bankCalls, c *bankCall)
	}{
		"a look-up that finds nothing is taken for proof": {sagatest.Pause, func(_ *bankCalls, c *bankCall) {
			look := c.LookUp
			c.LookUp = func(ctx context.Context, req, key string) (string, bool, error) {
				out, found, err := look(ctx, req, key)
				if err == nil && !found {
					err = skald.Reject(errors.New("nothing was done"))
				}
				return out, found, err
			}
		}},
		"a look-up for a cancel: the key is not used up": {sagatest.Pause,
			func(_ *bankCalls, c *bankCall) { c.Cancel = c.LookUp }},
		"no answer is taken for a no": {sagatest.ErrorAfter, func(_ *bankCalls, c *bankCall) {
			do := c.Do
			c.Do = func(ctx context.Context, req, key string) (string, error) {
				out, err := do(ctx, req, key)
				if err != nil {
					err = skald.Reject(err)
				}
				return out, err
			}
		}},
		"a new key for each try": {sagatest.CrashBefore, func(w *bankCalls, c *bankCall) {
			c.LookUp = nil
			do := c.Do
			c.Do = func(ctx context.Context, req, key string) (string, error) {
				return do(ctx, req, w.newKey(key))
			}
		}},
		"the bank is asked in the transaction, which its key goes with": {sagatest.CrashBefore,
			func(w *bankCalls, c *bankCall) {
				do, settle := c.Do, c.Settle
				w.fail = 0 // it is found without, too
				c.Intent = func(ctx context.Context, tx *memstore.Tx,
					m skald.Received[string]) (string, string, error) {
					_, err := do(ctx, m.Value, w.newKey(m.Value))
					no := (*skald.RejectedError)(nil)
					if err != nil && !errors.As(err, &no) {
						return "", "", err
					}
					return "", "", settle(ctx, tx, m, call.Outcome[string]{Refused: err != nil})
				}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, sample := range []int{sampled(150), 0} { // a sample may miss it
				r, err := sagatest.Search(t.Context(), buildCalls(inMemory, b.bug),
					&sagatest.Options{Modes: []sagatest.Mode{b.mode}, Rest: 60 * time.Second, Failures: 20,
						Sample: sample})
				if err != nil {
					t.Fatal(err)
				}
				i := slices.IndexFunc(r.Failures,
					func(f sagatest.Failure) bool {
						return foundBy(f, "moved_once") != "" &&
							len(f.Schedule) > 0
					})
				if i >= 0 {
					t.Logf("%v in %d schedules: %s", r.Failures[i].Schedule, r.Schedules,
						foundBy(r.Failures[i], "moved_once"))
					return
				}
			}
			t.Fatal("it is not found")
		})
	}
}

type (
	bankCalls = calls[*memstore.Tx]
	bankCall  = outsideCall[*memstore.Tx]
)

// newKey returns the key of a message's next attempt, for a bug in which each attempt has its own key. The
// first attempt has the message's id as its key at the bank.
func (c *calls[TTx]) newKey(key string) string {
	if c.tries[key]++; c.tries[key] > 1 {
		return fmt.Sprint(key, "-", c.tries[key])
	}
	return key
}
