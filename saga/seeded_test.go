package saga_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// bug is a bug of the engine, simulated in its store or clock.
type bug struct {
	name  string
	scene func(b wiring) func(w *sagatest.World) error
	wire  wiring
	modes []sagatest.Mode
	found string        // a pattern of the resulting effects
	rest  time.Duration // default 15 s
}

func bugs() []bug {
	none, crashes, pauses := []sagatest.Mode{}, []sagatest.Mode{sagatest.CrashBefore, sagatest.CrashAfter},
		[]sagatest.Mode{sagatest.Pause}
	engine := func(t tamper) wiring { return wiring{engine: &t} }
	return []bug{
		{"no version guards a write", twoEngines, engine(tamper{unguarded: true}), pauses,
			`left \d lines`, 0},
		{"a write that was lost is taken for one that stands", cancelledLate, engine(tamper{deaf: true}),
			pauses, `done, and the cancellation was taken`, 0},
		{"a verb of an operator's overwrites what came meanwhile", cancelledEarly,
			wiring{operator: &tamper{unguarded: true}}, pauses,
			`compensated .* [1-3] rows`, 0},
		{"a state is stored behind its effect", twoEngines, engine(tamper{stateApart: true}), crashes,
			`left [4-9] lines`, 0},
		{"what steps share is committed between two of them", sharers, engine(tamper{sharesApart: true}),
			crashes, `left [4-9] lines`, 0},
		{"what a failed step shares is not rolled back", twoEngines, engine(tamper{keepsShared: true}), none,
			`left [4-9] lines`, 0},
		{"a command is written behind its state", participants, engine(tamper{rowsApart: true}), crashes,
			`is running .* at pack`, 0},
		{"a reply is marked before it is taken in", participants, engine(tamper{writesLate: true}), crashes,
			`is \w+ .* at pack`, 0},
		{"a reply wakes nobody", participants, engine(tamper{move: sleeps}), none, `is running .* at pay`, 0},
		{"a reply to an earlier command is taken for one to the last", impatient, wiring{bare: true}, none,
			`is compensated .* packed: true`, 0},
		{"a timer is not stored", twoEngines, engine(tamper{move: forgetsTimes}), none,
			`is running .* at hotel`, 0},
		{"a timer is lost at a takeover", delays().build, engine(tamper{claim: losesTimes}), crashes,
			`is running .* at rest`, 0},
		{"retention takes sagas that still run", forgotten, wiring{operator: &tamper{keepsNone: true}}, none,
			`a left 1 lines`, 0},
		{"a lease has no end", twoEngines, engine(tamper{ask: endless, claim: sooner, move: keeps}), crashes,
			`is running`, 0},
		{"an engine goes by its own clock", twoEngines, engine(tamper{claim: timeless}), none,
			`a is compensated`, 0},
		{"the key of a call is drawn anew at a takeover", payments().build, engine(tamper{claim: rekeys}),
			crashes, `2 payments`, 0},
		{"a parent is told in a commit of its own", family().build, engine(tamper{kinApart: true}), crashes,
			`is running .* at inner`, 0},
		{"a saga is started beside the caller's transaction", shop, engine(tamper{startApart: true}), crashes,
			`without its order`, 0},
		{"many sagas are started beside the caller's transaction", starters, engine(tamper{startApart: true}),
			crashes, `without their order`, 0},
		{"who has ended stays in line", lockedIn().build, engine(tamper{stays: true}), none,
			`b is running .* at lock`, 0},
		{"who is second in line goes on", lockedIn().build, engine(tamper{pushes: true}), none,
			`c is compensated`, 0},
		{"entities are held in a commit behind the state", lockedIn().build, engine(tamper{holdsLate: true}),
			crashes, `[ac] is compensated`, 0},
		{"entities are freed in a commit before the end", lockedIn().build, engine(tamper{freesApart: true}),
			crashes, `[ac] is compensated`, 0},
		{"a build takes sagas of any definition for its own", builds, engine(tamper{ask: all, claim: own}),
			crashes, `b left 1 lines`, time.Minute},
	}
}

func cancelledEarly(b wiring) func(w *sagatest.World) error { return cancelled(b, early) }
func cancelledLate(b wiring) func(w *sagatest.World) error  { return cancelled(b, late) }

// sound is the wiring without the bug. The I/Os have the same numbers.
func (b bug) sound() (out wiring) {
	if b.wire.engine != nil {
		out.engine = &tamper{}
	}
	if b.wire.operator != nil {
		out.operator = &tamper{}
	}
	return out
}

// TestSeededBugs: the explorer finds each bug, and the schedule that finds it does no harm without the bug.
func TestSeededBugs(t *testing.T) {
	for _, b := range bugs() {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			o := &sagatest.Options{Modes: b.modes, Rest: cmp.Or(b.rest, 15*time.Second)}
			var r sagatest.Report
			for _, o.Failures = range []int{1, 50} { // other failures may come before the expected one
				var err error
				if r, err = sagatest.Search(t.Context(), b.scene(b.wire), o); err != nil {
					t.Fatal(err)
				}
				for _, f := range r.Failures {
					if b.shows(f) {
						t.Logf("%q after %d schedules: %s", f.Schedule, r.Schedules,
							strings.Join(f.Broken, "\n"))
						b.absent(t, f.Schedule, o.Rest)
						return
					}
				}
			}
			t.Errorf("nothing says %q: %v", b.found, r)
			for _, f := range r.Failures[:min(3, len(r.Failures))] {
				t.Logf("%q: %v\n%s", f.Schedule, f.Broken, f.Trace)
			}
		})
	}
}

// shows reports whether a failure is due to the bug.
func (b bug) shows(f sagatest.Failure) bool {
	plain := len(f.Schedule) == 0
	return plain == (len(b.modes) == 0) &&
		regexp.MustCompile(b.found).MatchString(strings.Join(f.Broken, "\n"))
}

// absent checks that a schedule does no harm without the bug.
func (b bug) absent(t *testing.T, s sagatest.Schedule, rest time.Duration) {
	t.Helper()
	o := &sagatest.Options{Schedules: []sagatest.Schedule{s}, Rest: rest}
	if r, err := sagatest.Search(t.Context(), b.scene(b.sound()), o); err != nil || len(r.Failures) > 0 ||
		r.Schedules != 1 {
		t.Errorf("the same without the bug: %v %v", r, err)
	}
}

// tamper simulates a bug between an engine and its database.
type tamper struct {
	ask   func(*store.ClaimRequest)
	claim func(*store.Saga)
	move  func(*store.SagaUpdate)

	unguarded  bool // writes ignore the version guard
	deaf       bool // lost writes are reported as stored
	stateApart bool // parts of a commit are committed later
	rowsApart  bool
	kinApart   bool
	startApart bool // or before it
	keepsNone  bool // everything old counts as ended
	writesLate bool // writes in a caller's transaction are made after its commit
	holdsLate  bool
	freesApart bool
	stays      bool // in the queue
	pushes     bool // to the front of the queue

	sharesApart bool // steps of one transaction are committed one by one, before the state
	keepsShared bool // a shared transaction is committed even if one of its steps failed
}

type tampered struct {
	store.Driver[tx]
	t    *tamper
	raw  *memstore.Store
	late []store.Effect

	holds []store.EntityHold // to be written late
}

// version returns the version for a guard, if n was read.
func (d *tampered) version(ctx context.Context, ref store.SagaRef) int64 {
	ss, err := store.ListSagas(ctx, d.raw, store.SagaQuery{Name: ref.Name, Key: ref.Key})
	if !d.t.unguarded || err != nil || len(ss) == 0 {
		return ref.Version
	}
	return ss[0].Version
}

// changed returns effects changed by the bug.
func (d *tampered) changed(ctx context.Context, es []store.Effect) []store.Effect {
	es = slices.Clone(es)
	for i := range es {
		if es[i].Saga == nil {
			continue
		}
		m := *es[i].Saga
		m.Version = d.version(ctx, m.SagaRef)
		if d.t.move != nil {
			d.t.move(&m)
		}
		es[i].Saga = &m
	}
	return es
}

// parts splits effects into those of one commit and those of a later one.
func (d *tampered) parts(es []store.Effect) (now, then []store.Effect) {
	for i, e := range es {
		switch {
		case d.t.kinApart && i > 0, d.t.stateApart:
			then = append(then, e)
		case d.t.rowsApart && len(e.Rows) > 0:
			then = append(then, store.Effect{Rows: e.Rows})
			e.Rows = nil
			now = append(now, e)
		default:
			now = append(now, e)
		}
	}
	return now, then
}

func (d *tampered) Claim(ctx context.Context, w store.ClaimRequest) (store.Claimed, error) {
	if d.t.ask != nil && w.Sagas != nil {
		sagas := *w.Sagas
		sagas.Hashes = slices.Clone(sagas.Hashes)
		w.Sagas = &sagas
		d.t.ask(&w)
	}
	c, err := d.Driver.Claim(ctx, w)
	for i := range c.Sagas {
		if d.t.claim != nil {
			d.t.claim(&c.Sagas[i])
		}
	}
	return c, err
}

func (d *tampered) StartSagas(ctx context.Context, tx tx,
	ss ...store.Saga) (stored []store.Saga, fresh []bool, err error) {
	if !d.t.startApart {
		return d.Driver.StartSagas(ctx, tx, ss...)
	}
	u, err := d.Driver.Begin(ctx, store.Intake{})
	if err != nil {
		return nil, nil, err
	}
	if stored, fresh, err = d.Driver.StartSagas(ctx, u.Tx(), ss...); err != nil {
		return nil, nil, err
	}
	return stored, fresh, u.Commit(ctx)
}

// apart runs f in its own transaction.
func (d *tampered) apart(ctx context.Context, stands bool, f func(tx tx) error) error {
	u, err := d.Driver.Begin(ctx, store.Intake{})
	if err != nil {
		return err
	}
	if err = f(u.Tx()); err == nil && stands {
		return u.Commit(ctx)
	}
	_, lost := u.Rollback(ctx)
	return errors.Join(err, lost)
}

func (d *tampered) HoldEntities(ctx context.Context, in tx, h store.EntityHold) (first bool, err error) {
	if !d.t.holdsLate {
		first, err = d.Driver.HoldEntities(ctx, in, h)
		return first || d.t.pushes, err
	}
	d.holds = append(d.holds, h)
	err = d.apart(ctx, false, func(tx tx) (err error) {
		first, err = d.Driver.HoldEntities(ctx, tx, h)
		return err
	})
	return first, err
}

func (d *tampered) FreeEntities(ctx context.Context, in tx, holder string) error {
	switch {
	case d.t.stays:
		return nil
	case d.t.freesApart:
		return d.apart(ctx, true, func(tx tx) error { return d.Driver.FreeEntities(ctx, tx, holder) })
	}
	return d.Driver.FreeEntities(ctx, in, holder)
}

func (d *tampered) Write(ctx context.Context, tx tx, es ...store.Effect) error {
	es = d.changed(ctx, es)
	if d.t.writesLate {
		d.late = append(d.late, es...)
		return nil
	}
	return d.Driver.Write(ctx, tx, es...)
}

func (d *tampered) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	now, then := es, []store.Effect(nil)
	if d.t.rowsApart {
		now, then = d.parts(es)
	}
	stood, err := d.Driver.Apply(ctx, d.changed(ctx, now)...)
	if err == nil && stood[0] && len(then) > 0 {
		_, err = d.Driver.Apply(ctx, then...)
	}
	return d.heard(stood), err
}

// Maintain takes running sagas for ended ones.
func (d *tampered) Maintain(ctx context.Context, m store.Maintain) (store.Maintained, error) {
	var all []store.Saga
	var err error
	if d.t.keepsNone {
		all, err = store.ListSagas(ctx, d.raw, store.SagaQuery{})
	}
	for _, s := range all {
		if s.Ended.IsZero() {
			over := store.SagaUpdate{SagaRef: sagarow.Ref(s), State: s.State, SagaStatus: s.SagaStatus,
				Final: true}
			_, failed := d.raw.Apply(ctx, store.Effect{Saga: &over})
			err = errors.Join(err, failed)
		}
	}
	if err != nil {
		return store.Maintained{}, err
	}
	return d.Driver.Maintain(ctx, m)
}

func (d *tampered) heard(stood []bool) []bool {
	for i := range stood {
		stood[i] = stood[i] || d.t.deaf
	}
	return stood
}

func (d *tampered) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	in.Sagas = slices.Clone(in.Sagas)
	for i, ref := range in.Sagas {
		in.Sagas[i].Version = d.version(ctx, ref)
	}
	u, err := d.Driver.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return &tamperedUnit{u, d, in, false}, nil
}

type tamperedUnit struct {
	store.Unit[tx]
	d      *tampered
	in     store.Intake
	shared bool
}

// Usable is called between two steps.
func (u *tamperedUnit) Usable(ctx context.Context) (err error) {
	u.shared = true
	if !u.d.t.sharesApart {
		return u.Unit.Usable(ctx)
	}
	if err = u.Unit.Commit(ctx); err == nil {
		u.Unit, err = u.d.Driver.Begin(ctx, u.in)
	}
	return err
}

func (u *tamperedUnit) Found() store.Found {
	f := u.Unit.Found()
	f.Follows = false // the next transaction uses Begin
	return f
}

func (u *tamperedUnit) CommitThen(ctx context.Context, _ store.Intake,
	es ...store.Effect) (store.Unit[tx], error) {
	return nil, u.Commit(ctx, es...)
}

func (u *tamperedUnit) Commit(ctx context.Context, es ...store.Effect) error {
	now, then := u.d.parts(u.d.changed(ctx, es))
	then = append(then, u.d.late...)
	u.d.late = nil
	err := u.Unit.Commit(ctx, now...)
	if errors.Is(err, store.ErrLost) && u.d.t.deaf {
		return nil
	}
	if err == nil && len(then) > 0 {
		_, err = u.d.Driver.Apply(ctx, then...)
	}
	for _, h := range u.d.holds {
		err = errors.Join(err, u.d.apart(ctx, true, func(tx tx) error {
			_, err := u.d.Driver.HoldEntities(ctx, tx, h)
			return err
		}))
	}
	u.d.holds = nil
	return err
}

func (u *tamperedUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	u.d.late, u.d.holds = nil, nil
	if u.shared && u.d.t.keepsShared {
		return nil, u.Unit.Commit(ctx)
	}
	stood, err := u.Unit.Rollback(ctx, u.d.changed(ctx, instead)...)
	return u.d.heard(stood), err
}

// forgetsTimes removes the time of the next check.
func forgetsTimes(m *store.SagaUpdate) {
	if m.Wake > 0 {
		m.Wake = -1
	}
}

// sleeps delays the next check.
func sleeps(m *store.SagaUpdate) {
	if m.Wake == 0 {
		m.Wake = -1
	}
}

const ages = 1000 * time.Hour

func endless(w *store.ClaimRequest) { w.Lease = ages }

// sooner hides from the engine that its lease is longer than it asked for.
func sooner(s *store.Saga) { s.Due = s.Due.Add(3*time.Second - ages) }

func keeps(m *store.SagaUpdate) {
	if m.Lease > 0 {
		m.Lease = ages
	}
}

// timeless removes the database's time from a claimed saga.
func timeless(s *store.Saga) { s.Due = time.Time{} }

// losesTimes removes the times of waiting steps at a takeover.
func losesTimes(s *store.Saga) {
	var st plan.State
	if err := json.Unmarshal([]byte(s.State), &st); err != nil {
		panic(err)
	}
	for i := range st.Runs {
		if s.Lapsed != "" && st.Runs[i].Phase == plan.Waiting {
			st.Runs[i].Due = time.Time{}
		}
	}
	s.State, _ = sagarow.EncodeState(st)
}

// rekeys makes each engine use different idempotency keys at a provider.
func rekeys(s *store.Saga) {
	s.State = regexp.MustCompile(`"Key":"`).ReplaceAllString(s.State, `${0}again `)
}

// all makes an engine also claim sagas of the older definition.
func all(w *store.ClaimRequest) { w.Sagas.Hashes = append(w.Sagas.Hashes, oldTrips(new(int)).Hash()) }

// own changes the state of a saga to the newer definition, without a check.
func own(s *store.Saga) {
	var st plan.State
	if err := json.Unmarshal([]byte(s.State), &st); err != nil {
		panic(err)
	}
	st.Runs = slices.DeleteFunc(st.Runs, func(r plan.Run) bool { return r.Step == "hotel" })
	if _, begun := st.Run("car", ""); !begun && st.Status == plan.Running {
		st.Runs = append(st.Runs, plan.Run{Step: "car", Phase: plan.Ready})
	}
	s.State, _ = sagarow.EncodeState(st)
	s.Hash = newTrips(new(int)).Hash()
}
