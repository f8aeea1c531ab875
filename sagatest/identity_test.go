package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// desk is a world with special messages: one that arrives again with another payload, one that is older than
// the marks, and one that is refused. All messages are repeated. An operator admits the messages in
// quarantine. Two processes try to do one job, which must be done once.
type desk[TTx any] struct {
	on    *ground[TTx]
	wrap  func(store.Driver[TTx]) store.Driver[TTx] // adds a bug; nil adds none
	turn  int                                       // of the operator
	asked map[string]int                            // turns of a job
	done  map[string]bool
}

const (
	deskTopic = "desk"
	deskRest  = 40 * time.Second // claims of a dead process have expired by then
	days      = 24 * time.Hour
)

func buildDesk[TTx any](open opening[TTx],
	wrap func(store.Driver[TTx]) store.Driver[TTx]) func(w *sagatest.World) error {
	return func(w *sagatest.World) error {
		ctx := context.Background()
		on, err := open(w)
		if err != nil {
			return err
		}
		d := &desk[TTx]{on: on, wrap: wrap, asked: map[string]int{}, done: map[string]bool{}}
		if err := on.forget("desk"); err != nil {
			return err
		}
		bus := membroker.New(nil)
		if err := bus.MakeTopics(ctx, 2, deskTopic); err != nil {
			return err
		}
		message := func(key, data string, ago time.Duration) skald.Message {
			return skald.Message{ID: w.NewID(w.Now().Add(-ago)), Source: "/other", Topic: deskTopic,
				Type: "said", Key: []byte(key), Data: []byte(data)}
		}
		// Clocks of producers and hosts are off by three days. Those of hosts are set back at each session.
		one, old, no := message("a", `"one"`, -wrong), message("b", `"old"`, 33*days),
			message("a", `"no"`, wrong)
		two := one
		two.Data = []byte(`"two"`)
		all := []skald.Message{one, two, old, no, one, two, old, no}
		if err := bus.Publish(ctx, all).Wait(ctx); err != nil {
			return err
		}
		for i, name := range []string{"desk-1", "desk-2"} {
			off := []time.Duration{wrong, -wrong}[i]
			d.process(w, name, func(p *sagatest.Process, to store.Driver[TTx]) {
				now := func() time.Time { return w.Now().Add(off) }
				p.Step(d.inbox(w, now, name, to, sagatest.CrashBroker(p, bus.Client())))
				off -= time.Hour
			})
		}
		d.process(w, "admits", func(p *sagatest.Process, to store.Driver[TTx]) { p.Step(admits[TTx]{d, to}) })
		for _, name := range []string{"job-1", "job-2"} {
			d.process(w, name, func(p *sagatest.Process, to store.Driver[TTx]) {
				// A paused rival has the key, and the test must not wait for that rival in real time.
				p.Step(&job[TTx]{d: d, db: hurried[TTx]{to}, name: name})
			})
		}
		w.Finally("effects", d.effects)
		w.Finally("answers", d.answers)
		w.Finally("quarantined", d.quarantined)
		return nil
	}
}

func (d *desk[TTx]) process(w *sagatest.World, name string,
	steps func(*sagatest.Process, store.Driver[TTx])) {
	w.Process(name, func(p *sagatest.Process) error {
		to := d.on.session(p)
		if d.wrap != nil {
			to = d.wrap(to)
		}
		steps(p, to)
		return nil
	})
}

// wrong is the largest difference between a clock and the clock of the database.
const wrong = 3 * days

func (d *desk[TTx]) inbox(w *sagatest.World, now func() time.Time, name string, to store.Driver[TTx],
	from broker.Subscriber) *inbox.Inbox[TTx] {
	in := inbox.New(to, from, "desk", &inbox.Options{Now: now, NewID: w.NewID,
		Logger: slog.New(slog.DiscardHandler), Instance: inbox.Instance{Member: name},
		Timeouts: inbox.Timeouts{Wait: time.Millisecond, Handle: time.Second},
		Retry:    inbox.Retry{InitialInterval: time.Microsecond, MaxInterval: time.Millisecond}})
	inbox.OnResult(in, skald.Event[string]{Topic: deskTopic, Type: "said"},
		func(_ context.Context, tx TTx, m skald.Received[string]) (inbox.Result, error) {
			if err := d.add(tx, "effect/"+m.Value); err != nil {
				return inbox.Result{}, err
			}
			said := skald.Event[string]{Topic: "answers", Type: "answered"}.New("a", m.Value)
			if m.Value == "no" {
				return inbox.Result{Code: 409}, skald.Reject(errors.New("no"), said)
			}
			return inbox.Result{Code: 200, Value: m.Value, Publish: []skald.Draft{said}}, nil
		})
	return in
}

// add adds one to the count.
func (d *desk[TTx]) add(tx TTx, key string) error {
	return d.on.update(tx, key, func(old string) string {
		n, _ := strconv.Atoi(old)
		return strconv.Itoa(n + 1)
	})
}

// hurried is a driver that does not wait in real time.
type hurried[TTx any] struct{ store.Driver[TTx] }

func (d hurried[TTx]) Begin(ctx context.Context, in store.Intake) (store.Unit[TTx], error) {
	in.Wait = time.Millisecond
	return d.Driver.Begin(ctx, in)
}

// admits is a stepper that admits all quarantined messages after a while.
type admits[TTx any] struct {
	d  *desk[TTx]
	db store.Driver[TTx]
}

func (a admits[TTx]) Step(ctx context.Context) (bool, error) {
	a.d.turn++
	if a.d.turn < 15 || a.d.turn%5 != 0 {
		return a.d.turn < 15, nil
	}
	list, err := store.ListQuarantined(ctx, a.db, store.QuarantineQuery{})
	if err != nil {
		return true, nil // the next turn retries
	}
	var numbers []int64
	for _, q := range list {
		if q.Admitted.IsZero() {
			numbers = append(numbers, q.Number)
		}
	}
	if len(numbers) > 0 {
		_, _ = store.AdmitAll(ctx, a.db, numbers, "ann", "all are meant") // the next turn reports the result
	}
	return len(numbers) > 0, nil
}

// job is a stepper that does two things with once.Do, and repeats them until the result is known.
type job[TTx any] struct {
	d    *desk[TTx]
	db   store.Driver[TTx]
	name string
}

func (j *job[TTx]) Step(ctx context.Context) (bool, error) {
	if j.d.done[j.name] {
		return false, nil
	}
	paid, _, err := once.Do(ctx, j.db, "jobs", "pay", "7 cents",
		func(_ context.Context, tx TTx) (int, error) {
			return 7, j.d.add(tx, "effect/job")
		})
	var no *once.RefusedError
	_, _, refused := once.Do(ctx, j.db, "jobs", "refuse", "8 cents",
		func(_ context.Context, tx TTx) (int, error) {
			return 0, errors.Join(j.d.add(tx, "effect/refused"), skald.Reject(errors.New("too dear")))
		})
	j.d.done[j.name] = j.d.done[j.name] || err == nil && paid == 7 && errors.As(refused, &no) &&
		no.Reason == "too dear"
	j.d.asked[j.name]++
	return !j.d.done[j.name] && j.d.asked[j.name] < 100, nil
}

func (d *desk[TTx]) effects() error {
	user, err := d.on.user()
	for what, want := range map[string]string{"one": "1", "two": "1", "old": "1", "no": "", "job": "1",
		"refused": ""} {
		if got := user["effect/"+what]; got != want {
			err = errors.Join(err, fmt.Errorf("the effect of %q is there %q times, want %q", what, got, want))
		}
	}
	said, bad := d.on.said()
	if n := len(said); n != 4 {
		err = errors.Join(err, fmt.Errorf("%d messages were said, want 4", n))
	}
	return errors.Join(err, bad)
}

func (d *desk[TTx]) answers() error {
	got := map[string]bool{}
	marks, err := d.on.marked()
	for _, m := range marks {
		v, bad := d.on.raw.Seen(context.Background(), m.Consumer, []store.Identity{m.Identity})
		if bad != nil {
			return bad
		}
		got[fmt.Sprint(
			m.Consumer, " ", v[0].Outcome, " ", v[0].Code, " ", v[0].Result, " ", v[0].Reason)] = true
	}
	for _, want := range []string{`desk done 200 "one" `, `desk rejected 409  no`, `jobs done 0 7 `,
		`jobs rejected 0  too dear`} {
		if !got[want] {
			err = errors.Join(err, fmt.Errorf("no mark %q among %v", want, got))
		}
	}
	if !d.done["job-1"] || !d.done["job-2"] {
		err = errors.Join(err, fmt.Errorf("a job does not know its result: %v", d.done))
	}
	return err
}

func (d *desk[TTx]) quarantined() error {
	list, err := store.ListQuarantined(context.Background(), d.on.raw, store.QuarantineQuery{Taken: true})
	if err != nil || len(list) != 2 || list[0].Taken.IsZero() || list[1].Taken.IsZero() {
		return fmt.Errorf("in quarantine: %+v, %v", list, err)
	}
	return nil
}

// TestExploreIdentityEverySingleFault injects each fault into conflicts, old messages, answers, admission
// and once.Do.
// Interleaving 4.
func TestExploreIdentityEverySingleFault(t *testing.T) {
	sagatest.Explore(t, buildDesk(inMemory, nil), &sagatest.Options{Rest: deskRest, Sample: sampled(200),
		Failures: 3})
}

func TestExploreIdentitySeveralFaultsAtOnce(t *testing.T) {
	n := 300
	if sampled(1) > 0 {
		n = 60
	}
	sagatest.Explore(t, buildDesk(inMemory, nil), &sagatest.Options{Rest: deskRest, Schedules: drawn(9, n),
		Failures: 3})
}

// changing has functions that change the requests to a driver, to add bugs.
type changing struct {
	db
	intake  func(*store.Intake)
	effect  func(*store.Effect)
	answers bool // answers are stored separately, after the commit
	notes   bool // so are the notes that admitted messages were parked
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
			later = append(later, store.Effect{Park: e.Park})
			e.Park = nil
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

// TestSeededIdentityBugs: if a safeguard of identity is removed, its invariant finds that.
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
		{"mark without fingerprint drops another payload", "effects",
			changing{intake: marks(func(m *store.Mark) { m.Fingerprint = 0 })}},
		{"nobody looks at the floor", "quarantined",
			changing{intake: marks(func(m *store.Mark) { m.Held = true })}},
		{"answer stored outside the transaction", "answers", changing{answers: true}},
		{"quarantine that is acknowledged and not written", "effects",
			changing{effect: func(e *store.Effect) { e.Quarantine = nil }}},
		{"what was taken from quarantine parked behind the note of it", "effects", changing{notes: true}},
	} {
		t.Run(b.name, func(t *testing.T) {
			r, err := sagatest.Search(t.Context(),
				buildDesk(inMemory, func(to db) db { b.bug.db = to; return b.bug }),
				&sagatest.Options{Rest: deskRest, Modes: []sagatest.Mode{sagatest.CrashBefore,
					sagatest.CrashAfter}, Failures: 20})
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
