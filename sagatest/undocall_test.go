package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// refunding is a world with one consumer in two processes, which calls a bank to charge and to refund.
// Steps and undos arrive on two topics and with different keys, some repeatedly.
type refunding[TTx any] struct {
	w    *sagatest.World
	on   *ground[TTx]
	bank *tellers
	wrap func(store.Driver[TTx]) store.Driver[TTx]
}

// sagas returns the sagas of the test. The bank refuses the saga r.
func (r *refunding[TTx]) sagas() (takes, undoes []string) {
	return []string{"a", "r", "b", "c"}, []string{"none", "b", "r", "b", "c"}
}

func buildRefunding[TTx any](open opening[TTx],
	wrap func(store.Driver[TTx]) store.Driver[TTx]) func(*sagatest.World) error {
	return func(w *sagatest.World) error {
		on, err := open(w)
		if err != nil {
			return err
		}
		r := &refunding[TTx]{w: w, on: on, wrap: wrap,
			bank: &tellers{ledger: map[string]int{}, refused: map[string]bool{}}}
		bus := membroker.New(nil)
		if err := bus.MakeTopics(context.Background(), 1, "orders", "cancels"); err != nil {
			return err
		}
		takes, undoes := r.sagas()
		for i := range undoes {
			ms := []skald.Message{(&barring[TTx]{}).message(called, i, undoes[i])}
			if i < len(takes) {
				ms = append(ms, (&barring[TTx]{}).message(tried, i, takes[i]))
			}
			if err := bus.Publish(context.Background(), ms).Wait(context.Background()); err != nil {
				return err
			}
		}
		for _, name := range []string{"one", "two"} {
			w.Process(name, func(p *sagatest.Process) error { return r.session(p, name, bus) })
		}
		w.Finally("taken_and_undone_once_or_never", r.holds)
		w.Finally("nothing_kept", func() error { return empty(on.raw) })
		return nil
	}
}

func (r *refunding[TTx]) session(p *sagatest.Process, name string, bus *membroker.Broker) error {
	d := r.on.session(p)
	if r.wrap != nil {
		d = r.wrap(d)
	}
	in := inbox.New(d, sagatest.CrashBroker(p, bus.Client()), "consumer", &inbox.Options{
		Now: r.w.Now, NewID: r.w.NewID, Logger: slog.New(slog.DiscardHandler),
		Instance: inbox.Instance{Member: name},
		Timeouts: inbox.Timeouts{Wait: time.Millisecond, Handle: time.Second},
		Retry:    inbox.Retry{InitialInterval: time.Microsecond, MaxInterval: time.Millisecond, Attempts: 9},
	})
	pay := inbox.NewStep(in, "pay", func(m skald.Received[string]) string { return m.Value })
	inbox.DoCallOn(pay, tried, r.how(p, "", "took "))
	inbox.UndoCallOn(pay, called, r.how(p, "-back", "undid "),
		inbox.Reply(func(m skald.Received[string], _ store.StepState) []skald.Draft {
			return []skald.Draft{told.New(m.ID, m.Value)}
		}))
	p.Step(in)
	return nil
}

// how returns a call of the bank with the saga's name as its key, and that effect.
func (r *refunding[TTx]) how(p *sagatest.Process, kind, effect string) outsideCall[TTx] {
	return outsideCall[TTx]{
		At: call.NewProvider("bank", &call.ProviderOptions{Timeout: time.Second}),
		Intent: func(_ context.Context, _ TTx, m skald.Received[string]) (string, string, error) {
			return m.Value, m.Value + kind, nil
		},
		Do: func(_ context.Context, _, key string) (string, error) {
			return "", p.IO("do "+key, func() error {
				if kind != "" && r.bank.ledger[strings.TrimSuffix(key, kind)] == 0 {
					return errors.New("to be given back is what was not taken")
				}
				if kind != "" {
					key = "x" + key // it is never refused
				}
				return r.bank.charge(key)
			})
		},
		Cancel: func(_ context.Context, _, key string) (_ string, done bool, err error) {
			err = p.IO("cancel "+key, func() error {
				done = r.bank.cancel(key)
				return nil
			})
			return "", done, err
		},
		Settle: func(_ context.Context, tx TTx, m skald.Received[string], o call.Outcome[string]) error {
			if o.Refused {
				return skald.Reject(errors.New(o.Reason))
			}
			return r.on.update(tx, m.Value, func(old string) string { return old + effect })
		},
	}
}

// holds checks each saga: its step took effect once and was then undone once, or never took effect. The
// bank has the same data.
func (r *refunding[TTx]) holds() error {
	user, err := r.on.user()
	if err != nil {
		return err
	}
	keys, err := r.on.said()
	if err != nil {
		return err
	}
	said := map[string]int{}
	for _, key := range keys {
		said[key]++
	}
	takes, undoes := r.sagas()
	for i, saga := range append(takes, undoes...) {
		got := strings.TrimSpace(user[saga])
		moved, back := r.bank.ledger[saga], r.bank.ledger["x"+saga+"-back"]
		ok := got == "" && moved == 0 && back == 0 || got == "took undid" && moved == 1 && back == 1
		if saga == "a" {
			ok = got == "took" && moved == 1 && back == 0
		}
		if !ok {
			err = errors.Join(err, fmt.Errorf("%s has %q, the bank moved %v", saga, got, r.bank.ledger))
		}
		if n := i - len(takes); n >= 0 && said[(&barring[TTx]{}).message(called, n, saga).ID] != 1 {
			err = errors.Join(err, fmt.Errorf("cancellation %d is answered %d times", n,
				said[(&barring[TTx]{}).message(called, n, saga).ID]))
		}
	}
	return err
}

// TestExploreUndoingByCallsEverySingleFault injects each fault at each I/O of steps that calls perform and
// undo, including the requests.
// Interleaving 8.
func TestExploreUndoingByCallsEverySingleFault(t *testing.T) {
	sagatest.Explore(t, buildRefunding(inMemory, nil),
		&sagatest.Options{Rest: 60 * time.Second, Sample: sampled(200), Failures: 3})
}

// TestSeededBugsOfUndoingByCalls: the safeguards of steps also work for steps that calls perform and undo.
// Interleaving 8.
func TestSeededBugsOfUndoingByCalls(t *testing.T) {
	for name, wrap := range map[string]func(db) db{
		"a mark taken for an effect":          func(d db) db { return markIsEffect{d} },
		"nothing to undo, and nothing barred": func(d db) db { return barsNothing{d} },
		"no mark and no step":                 sagatest.NoMark[*memstore.Tx],
	} {
		t.Run(name, func(t *testing.T) {
			r, err := sagatest.Search(t.Context(), buildRefunding(inMemory, wrap),
				&sagatest.Options{Rest: 60 * time.Second, Sample: 400})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Failures) == 0 {
				t.Fatalf("no invariant finds it: %v", r)
			}
			t.Logf("%v in %d schedules: %s", r.Failures[0].Schedule, r.Schedules, r.Failures[0].Broken[0])
		})
	}
}
