package exec

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// A batch is a job of several messages, which share a transaction where they can. It is faster and nothing
// else: each message ends as it would alone. What fails is undone for all and charged to none; then the
// guilty one is taken alone, at its place, and the others share again, so that it costs each of them one more
// run at most.

// Sociable tells of a message that came from the broker just now, or was claimed, has killed nobody and has
// not failed, and makes no call to the outside. Others are taken alone.
func Sociable(e *partition.Entry) bool {
	return e.Again == 0 && !e.Troubled() && !e.Lonely && !e.Foreign && e.Call == nil && !e.Suspect &&
		!e.Alone && e.Unreadable() == nil
}

// A member is a message of a batch.
type member struct {
	e      *partition.Entry
	intake store.Intake
	span   trace.Span
	took   time.Duration
}

// A sharing is a batch under way.
type sharing[TTx any] struct {
	x    *Executor[TTx]
	out  []Result
	shut map[*partition.Chain]bool // of which a message stays: those behind it do, too
	down bool                      // there is no use in going on
	fell bool
}

// Work does a job and answers a result for each message of it.
func (x *Executor[TTx]) Work(ctx context.Context, job []*partition.Entry) []Result {
	if len(job) == 1 {
		return []Result{x.hinted(ctx, job[0])}
	}
	s := &sharing[TTx]{x: x, shut: map[*partition.Chain]bool{}}
	for len(job) > 0 {
		var ms []member
		ms, job = x.alike(ctx, job)
		s.take(ctx, ms)
	}
	s.out[0].Fell = s.fell
	return s.out
}

// alike takes the first of es, and those that can share its transaction: they ask for the same settings, go
// to the same batch handler if it goes to one, are other messages, and leave none of their key behind.
func (x *Executor[TTx]) alike(ctx context.Context,
	es []*partition.Entry) (ms []member, rest []*partition.Entry) {
	ms = make([]member, 0, len(es))
	behind, known := map[*partition.Chain]bool{}, make(map[store.Identity]bool, len(es))
	for i, e := range es {
		var intake store.Intake
		err := error(nil)
		fits := !behind[e.Chain] && !known[e.Given]
		if fits {
			intake, err = x.intake(ctx, e)
		}
		if i == 0 && (err != nil || len(intake.Steps) > 0) {
			return []member{{e: e}}, es[1:] // alone, it fails; and what a step asks depends on how it stands
		}
		if fits = fits && err == nil && len(intake.Steps) == 0 &&
			(i == 0 || x.shares(ms[0], e, intake)); !fits {
			behind[e.Chain] = true
			rest = append(rest, e)
			continue
		}
		known[e.Given] = true
		ms = append(ms, member{e: e, intake: intake})
	}
	return ms, rest
}

func (x *Executor[TTx]) shares(first member, e *partition.Entry, intake store.Intake) bool {
	a, b := first.e.Kind(), e.Kind()
	return x.many[a] == x.many[b] && slices.Equal(first.intake.Settings, intake.Settings) &&
		first.intake.Server == intake.Server
}

// Who is guilty where it is no message that can be named.
const (
	nobody  = -1 // the transaction itself
	unnamed = -2 // one of them: a batch handler did not say which
)

// take does all of ms, in as few transactions as can be.
func (s *sharing[TTx]) take(ctx context.Context, ms []member) {
	if ms = s.going(ms); len(ms) < 2 {
		s.alone(ctx, ms)
		return
	}
	guilty, err := s.together(ctx, ms)
	s.fell = s.fell || err != nil &&
		(failure.IsOutage(err) || guilty == nobody && s.x.db.Outage(err) || ms[0].e.Parked != nil)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		s.down = true
		s.going(ms)
	case guilty == nobody:
		s.failed(ctx, ms, err)
	case guilty == unnamed:
		s.take(ctx, ms[:len(ms)/2])
		s.take(ctx, ms[len(ms)/2:])
	default:
		s.again(ctx, ms[:guilty])
		s.alone(ctx, ms[guilty:guilty+1])
		s.take(ctx, ms[guilty+1:])
	}
}

// again is for those that went well once, before the guilty one.
func (s *sharing[TTx]) again(ctx context.Context, ms []member) {
	if ms = s.going(ms); len(ms) < 2 {
		s.alone(ctx, ms)
		return
	}
	if guilty, err := s.together(ctx, ms); err != nil && guilty == nobody {
		s.failed(ctx, ms, err)
	} else if err != nil {
		s.alone(ctx, ms)
	}
}

// failed is for a transaction that failed by itself. Where a database that is away is not the reason, they
// are taken one by one.
func (s *sharing[TTx]) failed(ctx context.Context, ms []member, err error) {
	r := Result{Entry: ms[0].e, What: decide.Outage, Err: err}
	switch {
	case store.Incurable(err), errors.Is(err, store.ErrLent):
		r.What = decide.Broken
	case !s.x.db.Outage(err), errors.Is(err, store.ErrBusy), store.Collided(err):
		s.alone(ctx, ms)
		return
	case r.Entry.Parked != nil:
		s.x.giveBack(ctx, r.Entry, s.x.db.Apply)
	}
	s.down = true
	s.note(r)
	s.going(ms[1:])
}

// going are those of ms that can be taken; the others stay.
func (s *sharing[TTx]) going(ms []member) []member {
	led := leading()
	stays := func(m member) bool { return !led(m.e) || s.stays(m.e) }
	if !slices.ContainsFunc(ms, stays) {
		return ms
	}
	out := make([]member, 0, len(ms))
	for _, m := range ms {
		if stays(m) {
			s.note(Result{Entry: m.e, What: decide.Left})
		} else {
			out = append(out, m)
		}
	}
	return out
}

func (s *sharing[TTx]) stays(e *partition.Entry) bool { return s.down || s.shut[e.Chain] }

func (s *sharing[TTx]) note(r Result) {
	s.out = append(s.out, r)
	switch r.What {
	case decide.Again, decide.Outage, decide.Unkept, decide.Full, decide.Left:
		s.shut[r.Entry.Chain] = true
	case decide.Broken:
		s.down = true
	}
}

// alone takes ms one by one.
func (s *sharing[TTx]) alone(ctx context.Context, ms []member) {
	for _, m := range ms {
		if m.e.Prefetches || s.stays(m.e) {
			s.note(Result{Entry: m.e, What: decide.Left})
		} else {
			s.note(s.x.attempt(ctx, m.e))
		}
	}
}

// together takes ms in one transaction, or says who is guilty that nothing of it stands. What is not fresh is
// answered after it.
func (s *sharing[TTx]) together(ctx context.Context, ms []member) (guilty int, err error) {
	bound, cancel := context.WithTimeout(ctx, s.x.o.Handle+s.x.o.Wait)
	defer cancel()
	all := joined(ms)
	begun := time.Now()
	unit, err := s.x.db.Begin(bound, all)
	s.x.o.Telemetry.TookIn(ms[0].e.Topic, time.Since(begun))
	if err != nil {
		return nobody, fmt.Errorf("take in %d messages: %w", len(ms), err)
	}
	found := unit.Found().Marks
	bound = fenced(bound, all.Locks, unit.Found().Locks)
	var fresh []int
	for i := range ms {
		if found[i].Outcome == store.Fresh {
			fresh = append(fresh, i)
		}
	}
	if len(fresh) == 0 {
		_, _ = unit.Rollback(bound) // nothing was written
	} else if guilty, err = s.carryOut(bound, unit, ms, fresh); err != nil {
		return guilty, err
	}
	for i := range ms {
		switch e, v := ms[i].e, found[i]; {
		case v.Outcome == store.Fresh:
			s.note(Result{Entry: e, What: decide.Handled, Took: ms[i].took})
		case e.Parked == nil && (v.Outcome == store.Done || v.Outcome == store.Rejected) &&
			s.x.Harmless(e, v):
			s.note(Result{Entry: e, What: decide.Duplicate})
		default:
			s.alone(ctx, ms[i:i+1])
		}
	}
	return nobody, nil
}

// joined is the intake of all of ms: what each message has of its own, and what is the same for all.
func joined(ms []member) store.Intake {
	all := ms[0].intake
	all.Marks, all.Locks = make([]store.Mark, 0, len(ms)), nil
	for i := range ms {
		all.Marks = append(all.Marks, ms[i].intake.Marks...)
		all.Locks = append(all.Locks, ms[i].intake.Locks...)
	}
	return all
}

// carryOut runs the handlers and commits.
func (s *sharing[TTx]) carryOut(ctx context.Context, unit store.Unit[TTx], ms []member,
	fresh []int) (guilty int, err error) {
	what := decide.Left
	defer func() {
		if v := recover(); v != nil { // alone, the one that it is about panics again
			_, _ = unit.Rollback(ctx)
			guilty, err = unnamed, bug(ms[0].e, v)
		}
		for _, i := range fresh {
			telemetry.End(ms[i].span, what.String(), nil)
		}
	}()
	run := s.each
	if s.x.many[ms[0].e.Kind()] != nil {
		run = s.atOnce
	}
	effects, guilty, err := run(ctx, unit.Tx(), ms, fresh)
	if err != nil {
		err = s.x.unitsOwn(ctx, unit, err)
		_, _ = unit.Rollback(ctx) // the rows are undone in any case
		return guilty, err
	}
	if err := unit.Commit(ctx, effects...); err != nil {
		return nobody, fmt.Errorf("commit %d messages: %w", len(fresh), err)
	}
	what = decide.Handled
	return nobody, nil
}

// each runs the handler of each fresh message, in their order.
func (s *sharing[TTx]) each(ctx context.Context, tx TTx, ms []member,
	fresh []int) (effects []store.Effect, guilty int, err error) {
	for _, i := range fresh {
		leaves, err := s.one(ctx, tx, &ms[i])
		if err != nil {
			return nil, i, err
		}
		if !reflect.ValueOf(leaves).IsZero() {
			effects = append(effects, leaves)
		}
	}
	return effects, nobody, nil
}

// one runs the handler of m. What it says is written at once, so that it stands before what the next one
// says.
func (s *sharing[TTx]) one(ctx context.Context, tx TTx, m *member) (leaves store.Effect, err error) {
	begun := time.Now()
	ctx, m.span = s.x.o.Telemetry.Process(ctx, &m.e.Message, m.e.Again+1)
	r, err := s.x.run(ctx, m.e, tx)
	if err == nil {
		leaves, err = s.x.leaves(ctx, m.e, r, m.intake, decide.SaysDone)
	}
	if err == nil && len(leaves.Rows) > 0 {
		err = s.x.db.Write(ctx, tx, store.Effect{Rows: leaves.Rows})
	}
	leaves.Rows = nil
	m.took = time.Since(begun)
	return leaves, err
}

// leading tells, of messages of a transaction in their order, which may be taken in it: one that rides goes
// with the first of its key.
func leading() func(*partition.Entry) bool {
	first := map[*partition.Chain]bool{}
	return func(e *partition.Entry) bool {
		if e.Parked != nil && !e.Prefetches {
			first[e.Chain] = true
		}
		return !e.Prefetches || first[e.Chain]
	}
}
