package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// chain parks n messages of a key behind a first failure, and returns the values that a handler has to
// record.
func (w *world) chain(key string, n int) (want []string) {
	for i := range n {
		m := w.message(key, fmt.Sprint(key, i))
		p := store.Parked{Consumer: "stock", Identity: store.Identity{Source: m.Source, ID: m.ID}, Message: m}
		if i == 0 {
			p.Attempts = 1
		}
		w.apply(store.Effect{Park: &store.Park{Parked: p}})
		want = append(want, fmt.Sprint(key, i))
	}
	return want
}

// portions counts claimed and prefetched messages.
type portions struct {
	store.Driver[tx]
	claimed, along, most int
}

func (d *portions) Claim(ctx context.Context, w store.ClaimRequest) (store.Claimed, error) {
	c, err := d.Driver.Claim(ctx, w)
	for _, p := range c.Parked {
		if p.Waiting {
			d.along++
		} else {
			d.claimed++
		}
	}
	d.most = max(d.most, len(c.Parked))
	return c, err
}

// Parked chains of a key are claimed together: one claim for each transaction, not for each message. Each
// message takes effect once, in order, and not too many are in memory.
func TestWaitingMessagesArePrefetched(t *testing.T) {
	t.Parallel()
	for _, many := range []bool{false, true} {
		w := newWorld(t, 1)
		want := map[string][]string{}
		for k := range 20 {
			key := fmt.Sprint("k", k, ".")
			want[key] = w.chain(key, 40)
		}
		db := &begins{Driver: w.db}
		d := &portions{Driver: db}
		runs, txs := 0, map[int]int{}
		one := func(ctx context.Context, t tx, m skald.Received[string]) error {
			runs++
			txs[db.n]++
			return keep(ctx, t, m)
		}
		in := w.over(d, &inbox.Options{Now: w.clock, Workers: 2, Batch: 100}, one)
		if many {
			inbox.OnBatch(in, said, func(ctx context.Context, t tx, ms []skald.Received[string]) error {
				for _, m := range ms {
					if err := one(ctx, t, m); err != nil {
						return err
					}
				}
				return nil
			})
		}
		w.quiet(in)
		for key, values := range want {
			w.expect(key, strings.Join(values, " "))
		}
		if left := w.kept(); len(left) > 0 || runs != 800 {
			t.Errorf("%d are left after %d runs", len(left), runs)
		}
		if d.claimed > 200 || d.along < 600 || len(txs) > 60 {
			t.Errorf("%d were claimed and %d prefetched, in %d transactions", d.claimed, d.along, len(txs))
		}
		if d.most > 1250 {
			t.Errorf("%d were in memory at a time", d.most)
		}
	}
}

// If a prefetched message fails, the failure counts only for that message. Those before it take effect, those
// behind it wait, and none runs more than twice because of it.
func TestOnlyTheFailedPrefetchedMessageIsCharged(t *testing.T) {
	for _, many := range []bool{false, true} {
		w := newWorld(t, 1)
		want, others := w.chain("k", 60), w.chain("l", 60)
		runs := map[string]int{}
		one := func(ctx context.Context, t tx, m skald.Received[string]) error {
			runs[m.Value]++
			if m.Value == "k40" {
				return errors.New("no")
			}
			return keep(ctx, t, m)
		}
		in := w.inbox(&inbox.Options{Now: w.clock, Workers: 2, Batch: 100}, one)
		if many {
			inbox.OnBatch(in, said, func(ctx context.Context, t tx, ms []skald.Received[string]) error {
				for i, m := range ms {
					if err := one(ctx, t, m); err != nil {
						return inbox.FailMessage(i, err)
					}
				}
				return nil
			})
		}
		w.quiet(in)
		w.expect("k", strings.Join(want[:40], " "))
		w.expect("l", strings.Join(others, " "))
		left := w.kept()
		if len(left) != 20 || left[0].Attempts != 1 || left[0].Waiting {
			t.Fatalf("%d are left: %+v", len(left), left)
		}
		for i, p := range left {
			if p.Claims > 0 || i > 0 && p.Attempts > 0 {
				t.Errorf("%s is charged: %+v", p.ID, p)
			}
		}
		for value, n := range runs {
			if n > 2 && (n > 3 || value != "k40") {
				// The failed message runs once more if others of its claim succeeded in between.
				t.Errorf("%s ran %d times", value, n)
			}
		}
	}
}

// A prefetched message that crashes the process is found like other messages, and no failure counts for its
// neighbors.
// Interleaving 12.
func TestPrefetchedKillerBecomesADeadLetter(t *testing.T) {
	m := newMortal(t, 1, func(r skald.Received[string]) bool { return r.Value == "k40" })
	m.batch = 100
	want, others := m.chain("k", 60), m.chain("l", 60)
	if deaths := m.rest(10); deaths != 5 || m.runs["k40"] != 5 {
		t.Errorf("%d deaths, %d runs of the killer", deaths, m.runs["k40"])
	}
	m.expect("k", strings.Join(want[:40], " "))
	m.expect("l", strings.Join(others, " "))
	dead := m.dead()
	if len(dead) != 1 || dead[0].Dead.Kind != "crash" || dead[0].CrashCount != 3 {
		t.Errorf("dead: %+v", dead)
	}
	for _, p := range m.kept() {
		if p.Dead == nil && (p.CrashCount > 0 || p.Attempts > 0) {
			t.Errorf("%s is charged: %+v", p.ID, p)
		}
	}
}

// If the claim of the first message did not count for the prefetched ones, messages prefetched with a
// killer would cost more deaths.
// Interleaving 12.
func TestSeededBugOfPrefetchedKillers(t *testing.T) {
	m := newMortal(t, 1, func(r skald.Received[string]) bool { return r.Value == "k40" })
	m.batch = 100
	m.wrap = func(d store.Driver[tx]) store.Driver[tx] { return uncounted{d} }
	m.chain("k", 60)
	deaths := 0
	for ; deaths < 20 && m.live(); deaths++ {
		m.pass(2 * time.Minute)
	}
	if deaths <= 5 {
		t.Errorf("nothing finds it: %d deaths", deaths)
	}
}

// uncounted prefetches messages that the store does not count.
type uncounted struct{ store.Driver[tx] }

func (d uncounted) Claim(ctx context.Context, w store.ClaimRequest) (store.Claimed, error) {
	all := w.ClaimSize
	w.ClaimSize = store.ClaimSize{Keys: all.Keys}
	c, err := d.Driver.Claim(ctx, w)
	if err != nil || len(c.Parked) == 0 || all.Prefetch == 0 || c.Parked[0].Claims > 1 {
		return c, err
	}
	more, err := store.ListParked(ctx, d, store.ParkedQuery{Consumer: w.Consumer, After: c.Parked[0].Place,
		Limit: all.Prefetch})
	c.Parked = append(c.Parked, more...)
	return c, err
}

// Another process changes the first message or a prefetched message of a key between the claim and the
// transaction. The inbox leaves the messages behind it in the store, and handles them later, in order, once.
func TestPrefetchedMessagesOfAChangedKey(t *testing.T) {
	for _, at := range []int{0, 5, 19} {
		for name, what := range map[string]func(store.Parked) store.Effect{
			"dropped": func(p store.Parked) store.Effect {
				return store.Effect{Finish: &store.Finish{Consumer: p.Consumer, Identity: p.Identity}}
			},
			"tried elsewhere": func(p store.Parked) store.Effect {
				was := p.Attempts
				p.Attempts, p.Claims, p.Due = was+1, 0, time.Minute
				return store.Effect{Park: &store.Park{Parked: p, Was: &was}}
			},
			"dead": func(p store.Parked) store.Effect {
				was := p.Attempts
				p.Dead = &store.Death{Kind: "permanent"}
				return store.Effect{Park: &store.Park{Parked: p, Was: &was}}
			},
			"replaced": func(p store.Parked) store.Effect {
				old := p.Identity
				p.ID, p.Message.ID = "edited", "edited"
				return store.Effect{Park: &store.Park{Parked: p, Instead: &old}}
			},
		} {
			w := newWorld(t, 1)
			want := w.chain("k", 60)
			d := &movedBetween{Driver: w.db, w: w, at: at, what: what}
			runs := map[string]int{}
			in := w.over(d, &inbox.Options{Now: w.clock, Workers: 2, Batch: 100},
				func(ctx context.Context, t tx, m skald.Received[string]) error {
					runs[m.Value]++
					return keep(ctx, t, m)
				})
			for range 10 {
				w.quiet(in)
				w.pass(2 * time.Minute)
			}
			if d.moved == "" {
				t.Fatal("nothing was prefetched")
			}
			if name == "dropped" || name == "dead" {
				want = slices.DeleteFunc(want, func(v string) bool { return v == d.moved })
			}
			w.expect("k", strings.Join(want, " "))
			for value, n := range runs {
				if n != 1 {
					t.Errorf("%s, %d: %s ran %d times", name, at, value, n)
				}
			}
		}
	}
}

// movedBetween calls a function for a message of the first claim with twenty messages.
type movedBetween struct {
	store.Driver[tx]
	w     *world
	at    int
	what  func(store.Parked) store.Effect
	moved string
}

func (d *movedBetween) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	if len(in.Marks) >= 20 && in.Marks[0].KeyOrder == store.Retrying && d.moved == "" {
		kept, err := store.ListParked(ctx, d,
			store.ParkedQuery{Consumer: "stock", Identity: &in.Marks[d.at].Identity, Limit: 1})
		if err != nil || len(kept) != 1 {
			return nil, fmt.Errorf("%d are kept: %w", len(kept), err)
		}
		d.moved = strings.Trim(string(kept[0].Message.Data), `"`)
		d.w.apply(d.what(kept[0]))
	}
	return d.Driver.Begin(ctx, in)
}

// Waiting messages that cannot share a transaction are handled as usual: in order, none twice.
func TestPrefetchedMessagesOfSeveralKinds(t *testing.T) {
	w := newWorld(t, 1)
	other := skald.Event[string]{Topic: "orders", Type: "other"}
	var want []string
	for i := range 40 {
		m := w.message("k", fmt.Sprint(i))
		if i%3 > 0 {
			m.Type = other.Type
		}
		p := store.Parked{Consumer: "stock", Identity: store.Identity{Source: m.Source, ID: m.ID}, Message: m}
		w.apply(store.Effect{Park: &store.Park{Parked: p}})
		want = append(want, fmt.Sprint(i))
	}
	runs := 0
	one := func(ctx context.Context, t tx, m skald.Received[string]) error {
		runs++
		return keep(ctx, t, m)
	}
	in := w.inbox(&inbox.Options{Now: w.clock, Workers: 2, Batch: 100}, one)
	inbox.OnBatch(in, other, func(ctx context.Context, t tx, ms []skald.Received[string]) error {
		for _, m := range ms {
			if err := one(ctx, t, m); err != nil {
				return err
			}
		}
		return nil
	})
	w.quiet(in)
	w.expect("k", strings.Join(want, " "))
	if runs != 40 || len(w.kept()) > 0 {
		t.Errorf("%d runs, %d are left", runs, len(w.kept()))
	}
}
