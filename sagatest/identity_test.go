package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// A desk takes messages of which one came twice with another payload, one is older than is remembered, one is refused, and all
// come again; somebody admits what is in quarantine; and a job of two processes is done once.
type desk struct {
	db    *memstore.Store
	wrap  func(db) db    // a bug; nil: none
	turn  int            // of who admits
	asked map[string]int // turns of a job
	done  map[string]bool
}

const (
	deskTopic = "desk"
	deskRest  = 40 * time.Second // what a dead process had claimed is claimed again by then
	days      = 24 * time.Hour
)

func buildDesk(wrap func(db) db) func(w *sagatest.World) error {
	return func(w *sagatest.World) error {
		ctx := context.Background()
		shift := time.Duration(0)
		d := &desk{wrap: wrap, asked: map[string]int{}, done: map[string]bool{}}
		d.db = memstore.New(&memstore.Options{Source: "/desk", Lanes: 2, Now: func() time.Time { return w.Now().Add(shift) }})
		shift = -40 * days // the consumer is an old one, which has forgotten something
		m := store.Mark{Consumer: "desk", Identity: store.Identity{ID: w.NewID(w.Now().Add(-41 * days))}, As: store.Done}
		if _, err := d.db.Apply(ctx, store.Effect{Mark: &m}); err != nil {
			return err
		}
		for range 2 {
			if _, err := d.db.Maintain(ctx, store.Retention{}); err != nil {
				return err
			}
			shift = 0
		}
		bus := membroker.New(nil)
		if err := bus.MakeTopics(ctx, 2, deskTopic); err != nil {
			return err
		}
		message := func(key, data string, ago time.Duration) skald.Message {
			return skald.Message{ID: w.NewID(w.Now().Add(-ago)), Source: "/other", Topic: deskTopic, Type: "said", Key: []byte(key), Data: []byte(data)}
		}
		one, old, no := message("a", `"one"`, 0), message("b", `"old"`, 33*days), message("a", `"no"`, 0)
		two := one
		two.Data = []byte(`"two"`)
		all := []skald.Message{one, two, old, no, one, two, old, no}
		if err := bus.Publish(ctx, all).Wait(ctx); err != nil {
			return err
		}
		for _, name := range []string{"desk-1", "desk-2"} {
			d.process(w, name, func(p *sagatest.Process, to db) { p.Step(d.inbox(w, name, to, sagatest.CrashBroker(p, bus.Client()))) })
		}
		d.process(w, "admits", func(p *sagatest.Process, to db) { p.Step(admits{d, to}) })
		for _, name := range []string{"job-1", "job-2"} {
			d.process(w, name, func(p *sagatest.Process, to db) {
				// A rival that is paused has the key in hand; it is not waited for in real time.
				p.Step(&job{d: d, db: changing{db: to, intake: func(in *store.Intake) { in.Wait = time.Millisecond }}, name: name})
			})
		}
		w.Finally("effects", d.effects)
		w.Finally("answers", d.answers)
		w.Finally("quarantined", d.quarantined)
		return nil
	}
}

func (d *desk) process(w *sagatest.World, name string, steps func(*sagatest.Process, db)) {
	w.Process(name, func(p *sagatest.Process) error {
		session := d.db.Session()
		p.OnCrash(session.Kill)
		to := sagatest.CrashDriver[*memstore.Tx](p, session)
		if d.wrap != nil {
			to = d.wrap(to)
		}
		steps(p, to)
		return nil
	})
}

func (d *desk) inbox(w *sagatest.World, name string, to db, from broker.Subscriber) *inbox.Inbox[*memstore.Tx] {
	in := inbox.New(to, from, "desk", &inbox.Options{Now: w.Now, NewID: w.NewID, Logger: slog.New(slog.DiscardHandler), Member: name,
		Wait: time.Millisecond, Handle: time.Second, RetryFirst: time.Microsecond, RetryMost: time.Millisecond})
	inbox.OnResult(in, skald.Event[string]{Topic: deskTopic, Type: "said"}, func(_ context.Context, tx *memstore.Tx, m skald.Received[string]) (inbox.Result, error) {
		if err := add(tx, "effect/"+m.Value, 1); err != nil {
			return inbox.Result{}, err
		}
		said := skald.Event[string]{Topic: "answers", Type: "answered"}.New("a", m.Value)
		if m.Value == "no" {
			return inbox.Result{Code: 409}, skald.Reject(errors.New("no"), said)
		}
		return inbox.Result{Code: 200, Value: m.Value, Say: []skald.Draft{said}}, nil
	})
	return in
}

// admits lets all that is in quarantine be taken, after a while.
type admits struct {
	d  *desk
	db db
}

func (a admits) Step(ctx context.Context) (bool, error) {
	a.d.turn++
	if a.d.turn < 15 || a.d.turn%5 != 0 {
		return a.d.turn < 15, nil
	}
	list, err := a.db.Quarantined(ctx, store.Query{})
	if err != nil {
		return true, nil // the next turn tries again
	}
	var numbers []int64
	for _, q := range list {
		if q.Admitted.IsZero() {
			numbers = append(numbers, q.Number)
		}
	}
	if len(numbers) > 0 {
		_, _ = a.db.Admit(ctx, numbers, "ann", "all are meant") // the next turn tells
	}
	return len(numbers) > 0, nil
}

// job does two things once, and asks until it knows.
type job struct {
	d    *desk
	db   db
	name string
}

func (j *job) Step(ctx context.Context) (bool, error) {
	if j.d.done[j.name] {
		return false, nil
	}
	paid, _, err := inbox.Once(ctx, j.db, "jobs", "pay", "7 cents", func(_ context.Context, tx *memstore.Tx) (int, error) {
		return 7, add(tx, "effect/job", 1)
	})
	var no *inbox.RefusedError
	_, _, refused := inbox.Once(ctx, j.db, "jobs", "refuse", "8 cents", func(_ context.Context, tx *memstore.Tx) (int, error) {
		return 0, errors.Join(add(tx, "effect/refused", 1), skald.Reject(errors.New("too dear")))
	})
	j.d.done[j.name] = j.d.done[j.name] || err == nil && paid == 7 && errors.As(refused, &no) && no.Reason == "too dear"
	j.d.asked[j.name]++
	return !j.d.done[j.name] && j.d.asked[j.name] < 100, nil
}

func (d *desk) effects() (err error) {
	for what, want := range map[string]string{"one": "1", "two": "1", "old": "1", "no": "", "job": "1", "refused": ""} {
		if got := d.db.User()["effect/"+what]; got != want {
			err = errors.Join(err, fmt.Errorf("the effect of %q is there %q times, want %q", what, got, want))
		}
	}
	if n := len(d.db.Rows()); n != 4 {
		err = errors.Join(err, fmt.Errorf("%d messages were said, want 4", n))
	}
	return err
}

func (d *desk) answers() (err error) {
	got := map[string]bool{}
	for _, m := range d.db.Marks() {
		got[fmt.Sprint(m.Consumer, " ", m.As, " ", m.Code, " ", m.Result, " ", m.Reason)] = true
	}
	for _, want := range []string{`desk done 200 "one" `, `desk rejected 409  no`, `jobs done 0 7 `, `jobs rejected 0  too dear`} {
		if !got[want] {
			err = errors.Join(err, fmt.Errorf("no mark %q among %v", want, got))
		}
	}
	if !d.done["job-1"] || !d.done["job-2"] {
		err = errors.Join(err, fmt.Errorf("a job does not know its result: %v", d.done))
	}
	return err
}

func (d *desk) quarantined() error {
	list, err := d.db.Quarantined(context.Background(), store.Query{Taken: true})
	if err != nil || len(list) != 2 || list[0].Taken.IsZero() || list[1].Taken.IsZero() {
		return fmt.Errorf("in quarantine: %+v, %v", list, err)
	}
	return nil
}

// Conflicts, what is too old, answers, admission and work that is done once, under every single fault.
// Interleaving 4.
func TestExploreIdentityEverySingleFault(t *testing.T) {
	sagatest.Explore(t, buildDesk(nil), &sagatest.Options{Rest: deskRest, Sample: sampled(200), Failures: 3})
}

func TestExploreIdentitySeveralFaultsAtOnce(t *testing.T) {
	n := 300
	if sampled(1) > 0 {
		n = 60
	}
	sagatest.Explore(t, buildDesk(nil), &sagatest.Options{Rest: deskRest, Schedules: drawn(9, n), Failures: 3})
}

// changing changes what a driver is asked for.
type changing struct {
	db
	intake  func(*store.Intake)
	effect  func(*store.Effect)
	answers bool // go by themselves, behind the commit
	notes   bool // so does the parking of what was admitted
}

func (c changing) effects(es []store.Effect) []store.Effect {
	out := append([]store.Effect(nil), es...)
	for i := range out {
		if c.effect != nil {
			c.effect(&out[i])
		}
	}
	return out
}

func (c changing) Begin(ctx context.Context, in store.Intake) (store.Unit[*memstore.Tx], error) {
	in.Marks = append([]store.Mark(nil), in.Marks...)
	if c.intake != nil {
		c.intake(&in)
	}
	u, err := c.db.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return changingUnit{u, c}, nil
}

func (c changing) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	es = c.effects(es)
	var later []store.Effect
	for i := range es {
		if e := &es[i]; c.notes && e.Admitted != nil {
			later = append(later, store.Effect{Keep: e.Keep})
			e.Keep = nil
		}
	}
	stood, err := c.db.Apply(ctx, es...)
	if err == nil && len(later) > 0 {
		_, err = c.db.Apply(ctx, later...)
	}
	return stood, err
}

type changingUnit struct {
	store.Unit[*memstore.Tx]
	c changing
}

func (u changingUnit) Commit(ctx context.Context, es ...store.Effect) error {
	es = u.c.effects(es)
	var later []store.Effect
	for i := range es {
		if e := &es[i]; u.c.answers {
			later = append(later, store.Effect{Answer: e.Answer})
			e.Answer = nil
		}
	}
	if err := u.Unit.Commit(ctx, es...); err != nil {
		return err
	}
	_, err := u.c.db.Apply(ctx, later...)
	return err
}

func (u changingUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	return u.Unit.Rollback(ctx, u.c.effects(instead)...)
}

// Each safeguard of identity that is taken away is found, by the invariant that is for it.
func TestSeededIdentityBugs(t *testing.T) {
	marks := func(f func(*store.Mark)) func(*store.Intake) {
		return func(in *store.Intake) {
			for i := range in.Marks {
				f(&in.Marks[i])
			}
		}
	}
	for _, b := range []struct {
		name, found string
		bug         changing
	}{
		{"mark without fingerprint drops another payload", "effects", changing{intake: marks(func(m *store.Mark) { m.Fingerprint = 0 })}},
		{"nobody looks at the floor", "quarantined", changing{intake: marks(func(m *store.Mark) { m.Held = true })}},
		{"answer stored outside the transaction", "answers", changing{answers: true}},
		{"quarantine that is acknowledged and not written", "effects", changing{effect: func(e *store.Effect) { e.Quarantine = nil }}},
		{"what was taken from quarantine parked behind the note of it", "effects", changing{notes: true}},
	} {
		t.Run(b.name, func(t *testing.T) {
			r, err := sagatest.Search(t.Context(), buildDesk(func(to db) db { b.bug.db = to; return b.bug }),
				&sagatest.Options{Rest: deskRest, Modes: []sagatest.Mode{sagatest.CrashBefore, sagatest.CrashAfter}, Failures: 20, Sample: 400})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Failures {
				if why := foundBy(f, b.found); why != "" {
					t.Logf("%s, found in %d schedules: %s", f.Schedule, r.Schedules, why)
					return
				}
			}
			t.Errorf("%s did not find it: %v", b.found, r)
		})
	}
}
