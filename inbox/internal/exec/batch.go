package exec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/lending"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// This file handles jobs of several messages that share transactions. Sharing saves only time: each message
// ends as it would alone. If a message fails, the transaction is rolled back and no message is charged. Then
// the guilty message runs alone, at its place, and the others share again: each handler runs at most once
// more.

// CanShare reports whether e may share a transaction. Such a message has not failed, may not have crashed a
// process, and makes no outside call. A step of a saga shares only the first attempt to do it.
func (g *registry[TTx]) CanShare(e *partition.Entry) bool {
	if alone := g.unshared.Load(); alone != nil && (*alone)[e.Kind()] {
		return false
	}
	return g.sharesStep(e) && e.Again == 0 && !e.Troubled() && !e.NoSharing && !e.Foreign && e.Call == nil &&
		!e.Suspect && !e.Alone && e.Unreadable() == nil
}

// runAlone gives each message of k its own transaction from now on. It logs that once.
func (x *Executor[TTx]) runAlone(k store.Kind) {
	for {
		was, next := x.unshared.Load(), map[store.Kind]bool{k: true}
		if was != nil {
			if (*was)[k] {
				return
			}
			maps.Copy(next, *was)
		}
		if x.unshared.CompareAndSwap(was, &next) {
			break
		}
	}
	x.o.Logger.Info("inbox: a handler leaves state in its transaction; its messages share none from now on",
		"consumer", x.o.Group, "topic", k.Topic, "type", k.Type, "error", store.ErrUnshared)
}

func (g *registry[TTx]) sharesStep(e *partition.Entry) bool {
	k := e.Kind()
	c, step := g.steps[k]
	_, call := g.calls[k]
	return !step || c.State == store.StepDone && !call && g.legacySteps == nil && g.batchHandlers[k] == nil &&
		e.Parked == nil
}

// member is a message of a batch.
type member struct {
	e      *partition.Entry
	intake store.Intake
	span   trace.Span
	took   time.Duration
	ending decide.Ending // of a fresh message, after the commit
	hooks  func()        // run after the commit
}

// batch is a job of several messages in progress.
type batch[TTx any] struct {
	x          *Executor[TTx]
	out        []Result
	blocked    map[*partition.Chain]bool // keys with a message that stays: later ones stay, too
	stopped    bool                      // no more messages can be attempted
	rolledBack bool                      // a transaction was rolled back

	collided time.Duration // in transactions that collided with others
}

// workBatch handles a job of several messages.
func (x *Executor[TTx]) workBatch(ctx context.Context, job []*partition.Entry) []Result {
	s := &batch[TTx]{x: x, blocked: map[*partition.Chain]bool{}}
	for len(job) > 0 {
		var ms []member
		ms, job = x.nextMembers(ctx, job)
		s.take(ctx, ms)
	}
	s.out[0].RolledBack, s.out[0].Collided = s.rolledBack, s.collided
	return s.out
}

// nextMembers returns the first of es and the messages that can share its transaction. They have the same
// settings and the same batch handler, if any. No two of them share an identity or a step, nor an entity if
// each has its own handler call. No earlier message of their keys is in rest.
func (x *Executor[TTx]) nextMembers(ctx context.Context,
	es []*partition.Entry) (ms []member, rest []*partition.Entry) {
	ms = make([]member, 0, len(es))
	behind, known := map[*partition.Chain]bool{}, make(map[store.Identity]bool, len(es))
	steps, locks := map[[3]string]bool{}, map[store.Lock]bool{}
	for i, e := range es {
		var intake store.Intake
		err := error(nil)
		fits := !behind[e.Chain] && !known[e.Given]
		if fits {
			intake, err = x.intake(ctx, e)
		}
		if i == 0 && err != nil {
			return []member{{e: e}}, es[1:] // its own attempt reports the error
		}
		if fits = fits && err == nil && (i == 0 || x.shares(ms[0], e, intake)); fits && e.Step != nil {
			step := [3]string{e.Step.Saga, e.Step.Name, e.Step.Occurrence}
			fits, steps[step] = !steps[step], true
		}
		// A transaction gives an entity one version: the fencing token of one handler call.
		if x.batchHandlers[e.Kind()] == nil {
			fits = fits && !slices.ContainsFunc(intake.Locks, func(l store.Lock) bool { return locks[l] })
		}
		if !fits {
			behind[e.Chain] = true
			rest = append(rest, e)
			continue
		}
		for _, l := range intake.Locks {
			locks[l] = true
		}
		known[e.Given] = true
		ms = append(ms, member{e: e, intake: intake})
	}
	return ms, rest
}

func (x *Executor[TTx]) shares(first member, e *partition.Entry, intake store.Intake) bool {
	a, b := first.e.Kind(), e.Kind()
	return x.batchHandlers[a] == x.batchHandlers[b] && slices.Equal(first.intake.Settings, intake.Settings) &&
		first.intake.Server == intake.Server && len(first.intake.Steps) == len(intake.Steps)
}

// Values of guilty that are not an index.
const (
	nobody  = -1 // the transaction itself failed
	unnamed = -2 // a message failed, and its batch handler returned no index
)

// take attempts all of ms in as few transactions as possible.
func (s *batch[TTx]) take(ctx context.Context, ms []member) {
	if ms = s.runnable(ms); len(ms) < 2 {
		s.alone(ctx, ms)
		return
	}
	guilty, err := s.try(ctx, ms)
	s.rolledBack = s.rolledBack || err != nil && !errors.Is(err, errAlone)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		s.stopped = true
		s.runnable(ms)
	case guilty == nobody:
		s.failed(ctx, ms, err)
	case hung(err) != nil:
		s.hung(ctx, ms, err)
	case guilty == unnamed:
		s.take(ctx, ms[:len(ms)/2])
		s.take(ctx, ms[len(ms)/2:])
	default:
		s.again(ctx, ms[:guilty])
		s.alone(ctx, ms[guilty:guilty+1])
		s.take(ctx, ms[guilty+1:])
	}
}

// hung ends ms after a handler ignored its context. Its messages are charged: they may not run again while
// it runs. The others share again.
func (s *batch[TTx]) hung(ctx context.Context, ms []member, err error) {
	guilty := hung(err)
	for len(ms) > 0 {
		n := slices.IndexFunc(ms, func(m member) bool { return slices.Contains(guilty, m.e) })
		if n < 0 {
			s.take(ctx, ms)
			return
		}
		if n > 0 {
			s.take(ctx, ms[:n])
		}
		if e := ms[n].e; e.Prefetches || s.isBlocked(e) {
			s.add(Result{Entry: e, What: decide.NotAttempted})
		} else {
			s.add(s.x.fail(ctx, e, s.x.db.Apply, fmt.Errorf("handle %s: %w", e.TypeAndName(), err)))
		}
		ms = ms[n+1:]
	}
}

// again attempts the messages before a guilty one. Their handlers have succeeded once.
func (s *batch[TTx]) again(ctx context.Context, ms []member) {
	if ms = s.runnable(ms); len(ms) < 2 {
		s.alone(ctx, ms)
		return
	}
	if guilty, err := s.try(ctx, ms); err != nil && guilty == nobody {
		s.failed(ctx, ms, err)
	} else if err != nil {
		s.alone(ctx, ms)
	}
}

// try calls transact. If the transaction collided with another one, no message is guilty.
func (s *batch[TTx]) try(ctx context.Context, ms []member) (guilty int, err error) {
	begun := time.Now()
	guilty, err = s.transact(ctx, ms)
	if store.Contended(err) && (guilty == nobody || failure.IsOutage(err)) {
		s.collided += max(1, time.Since(begun))
		guilty = nobody
	}
	return guilty, err
}

// failed ends ms after their transaction itself failed. In an outage they stay. Otherwise each runs alone.
func (s *batch[TTx]) failed(ctx context.Context, ms []member, err error) {
	r := Result{Entry: ms[0].e, What: decide.Outage, Err: err}
	switch {
	case store.Incurable(err):
		r.What = decide.Broken
	case !s.x.db.Outage(err), store.Contended(err): // also store.ErrLent: only the guilty one fails again
		s.alone(ctx, ms)
		return
	case r.Entry.Parked != nil:
		s.x.releaseClaim(ctx, r.Entry, s.x.db.Apply)
	}
	s.stopped = true
	s.add(r)
	s.runnable(ms[1:])
}

// runnable returns the messages of ms that can be attempted. The others end as NotAttempted.
func (s *batch[TTx]) runnable(ms []member) []member {
	led := leading()
	stays := func(m member) bool { return !led(m.e) || s.isBlocked(m.e) }
	if !slices.ContainsFunc(ms, stays) {
		return ms
	}
	out := make([]member, 0, len(ms))
	for _, m := range ms {
		if stays(m) {
			s.add(Result{Entry: m.e, What: decide.NotAttempted})
		} else {
			out = append(out, m)
		}
	}
	return out
}

func (s *batch[TTx]) isBlocked(e *partition.Entry) bool { return s.stopped || s.blocked[e.Chain] }

func (s *batch[TTx]) add(r Result) {
	s.out = append(s.out, r)
	switch r.What {
	case decide.Again, decide.Outage, decide.NotParked, decide.Full, decide.NotAttempted:
		s.blocked[r.Entry.Chain] = true
	case decide.Broken:
		s.stopped = true
	}
}

// alone attempts each of ms in its own transaction.
func (s *batch[TTx]) alone(ctx context.Context, ms []member) {
	for _, m := range ms {
		if m.e.Prefetches || s.isBlocked(m.e) {
			s.add(Result{Entry: m.e, What: decide.NotAttempted})
		} else {
			s.add(s.x.attempt(ctx, m.e))
		}
	}
}

// transact attempts ms in one transaction. After a rollback it returns the index of the guilty message.
// Messages that are not fresh end after the commit.
func (s *batch[TTx]) transact(ctx context.Context, ms []member) (guilty int, err error) {
	bound, cancel := context.WithTimeout(ctx, s.x.o.Handle+s.x.o.Wait)
	defer cancel()
	all := joined(ms)
	begun := time.Now()
	unit, err := s.x.begin(bound, all)
	s.x.o.Telemetry.TookIn(ms[0].e.Topic, time.Since(begun))
	if err != nil {
		return nobody, fmt.Errorf("take in %d messages: %w", len(ms), err)
	}
	if i := s.unfit(ms, unit.Found()); i != nobody {
		_, _ = unit.Rollback(bound)
		return i, errAlone
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
		_, _ = unit.Rollback(bound)
	} else if guilty, err = s.carryOut(bound, unit, ms, fresh); err != nil {
		return guilty, err
	}
	for i := range ms {
		switch e, v := ms[i].e, found[i]; {
		case v.Outcome == store.Fresh:
			s.add(Result{Entry: e, What: ms[i].ending, Took: ms[i].took})
		case e.Parked == nil && (v.Outcome == store.Done || v.Outcome == store.Rejected) &&
			s.x.DropsDuplicate(e, v):
			s.add(Result{Entry: e, What: decide.Duplicate})
		default:
			s.alone(ctx, ms[i:i+1])
		}
	}
	return nobody, nil
}

// errAlone makes the guilty message run alone. The message has not failed.
var errAlone = errors.New("the message needs a transaction of its own")

// unfit returns the first message whose intake wrote a step or a mark that a batch must not commit. It
// returns nobody if there is none.
func (s *batch[TTx]) unfit(ms []member, found store.Found) int {
	for i := range found.Steps {
		m, mark, was := &ms[i], found.Marks[i], found.Steps[i]
		if mark.Outcome != store.Fresh {
			if was.State == store.StepAbsent || was.State == store.StepParked || was.State == store.StepDead {
				return i
			}
			continue
		}
		facts := s.x.facts(m.e, store.Found{Marks: []store.Verdict{mark}, Steps: []store.Step{was}},
			m.intake.Marks[0].Fingerprint)
		if s.x.table.AfterIntake(facts).Do != decide.Handle {
			return i
		}
	}
	return nobody
}

// joined returns one intake for all of ms, with the marks, entities and steps of each.
func joined(ms []member) store.Intake {
	all := ms[0].intake
	all.Marks, all.Locks, all.Steps = make([]store.Mark, 0, len(ms)), nil, nil
	for i := range ms {
		all.Marks = append(all.Marks, ms[i].intake.Marks...)
		all.Locks = append(all.Locks, ms[i].intake.Locks...)
		all.Steps = append(all.Steps, ms[i].intake.Steps...)
	}
	return all
}

// carryOut runs the handlers and commits.
func (s *batch[TTx]) carryOut(ctx context.Context, unit store.Unit[TTx], ms []member,
	fresh []int) (guilty int, err error) {
	committed := false
	defer func() {
		if v := recover(); v != nil { // the guilty message panics again when it runs alone
			guilty, err = unnamed, panicError(ms[0].e, v)
			if _, back := unit.Rollback(ctx); errors.Is(back, store.ErrLent) {
				guilty, err = nobody, back
			}
		}
		for _, i := range fresh {
			what := decide.NotAttempted
			if committed {
				what = ms[i].ending
			}
			telemetry.End(ms[i].span, what.String(), nil)
		}
	}()
	run := s.runEach
	if s.x.batchHandlers[ms[0].e.Kind()] != nil {
		run = s.runTogether
	}
	effects, guilty, err := run(ctx, unit, ms, fresh)
	if hung(err) != nil { // the function still uses the connection
		unit.Drop()
	} else if err != nil {
		err = s.x.asOutage(ctx, unit, err)
	}
	if err != nil {
		if _, back := unit.Rollback(ctx); errors.Is(back, store.ErrLent) {
			return nobody, back
		}
		return guilty, err
	}
	if err := unit.Commit(ctx, effects...); err != nil {
		if errors.Is(err, store.ErrUnshared) {
			for _, i := range fresh {
				s.x.runAlone(ms[i].e.Kind())
			}
		}
		return nobody, s.x.chargeHandler(ctx, fmt.Errorf("commit %d messages: %w", len(fresh), err))
	}
	committed = true
	for _, i := range fresh {
		if ms[i].hooks != nil {
			ms[i].hooks()
		}
	}
	return nobody, nil
}

// runEach runs the handler of each fresh message, in order.
func (s *batch[TTx]) runEach(ctx context.Context, unit store.Unit[TTx], ms []member,
	fresh []int) (effects []store.Effect, guilty int, err error) {
	points := s.x.savepoints.Load() > 0
	defer func() { s.x.noteRejections(ms, fresh, err) }()
	for n, i := range fresh {
		var effect store.Effect
		var err error
		effect, err = s.runOne(ctx, unit, &ms[i], points && unit.Savepoint(ctx))
		if err == nil && n < len(fresh)-1 { // session state must not leak into the next handler
			err = unit.Usable(ctx)
		}
		if errors.Is(err, store.ErrUnshared) {
			s.x.runAlone(ms[i].e.Kind())
			err = errAlone
		}
		if err != nil {
			return nil, i, err
		}
		if !reflect.ValueOf(effect).IsZero() {
			effects = append(effects, effect)
		}
	}
	return effects, nobody, nil
}

// savepointsAfterReject is the number of transactions with savepoints after a rejection.
const savepointsAfterReject = 64

// noteRejections enables savepoints for the next transactions if one of ms was rejected.
func (x *Executor[TTx]) noteRejections(ms []member, fresh []int, err error) {
	rejects := func(i int) bool { return ms[i].ending == decide.Rejected }
	if answerOf(err, false).rejected != nil || slices.ContainsFunc(fresh, rejects) {
		x.savepoints.Store(savepointsAfterReject)
	} else if x.savepoints.Load() > 0 {
		x.savepoints.Add(-1)
	}
}

// runOne runs the handler of m, and writes the messages of its reply before those of the next one. If m is
// rejected and has a savepoint, the others keep their work.
func (s *batch[TTx]) runOne(ctx context.Context, unit store.Unit[TTx], m *member,
	point bool) (effect store.Effect, err error) {
	begun := time.Now()
	ctx, m.span = s.x.o.Telemetry.Process(ctx, &m.e.Message, m.e.Again+1)
	ctx = lending.Watch(ctx)
	m.ending, m.hooks = decide.Handled, func() { lending.Committed(ctx) }
	r, err := s.x.run(ctx, m.e, unit)
	if err == nil {
		effect, err = s.x.replyEffect(ctx, m.e, r, m.intake, decide.ReturnedNil)
	} else if rejected := answerOf(err, false).rejected; rejected != nil && point && !s.x.o.Rejections &&
		s.x.legacyDedup == nil && unit.Undo(ctx) == nil {
		m.ending, m.hooks = decide.Rejected, nil
		effect, err = s.x.rejectionEffect(ctx, m.e, m.intake, rejected, r)
		effect.Answer, effect.Mark = effect.Mark, nil // the intake wrote the mark
		if effect.Step != nil {                       // and changed the step
			effect.Step.From = []store.StepState{store.StepDone}
		}
	}
	if err == nil && len(effect.Rows) > 0 {
		err = s.x.db.Write(ctx, unit.Tx(), store.Effect{Rows: effect.Rows})
	}
	effect.Rows = nil
	m.took = time.Since(begun)
	return effect, err
}

// leading returns a function to call with the messages of a transaction, in order. The function returns false
// for a prefetched message without the first message of its key.
func leading() func(*partition.Entry) bool {
	first := map[*partition.Chain]bool{}
	return func(e *partition.Entry) bool {
		if e.Parked != nil && !e.Prefetches {
			first[e.Chain] = true
		}
		return !e.Prefetches || first[e.Chain]
	}
}

// runTogether calls the batch handler with the fresh messages.
func (s *batch[TTx]) runTogether(ctx context.Context, unit store.Unit[TTx], ms []member,
	fresh []int) (effects []store.Effect, guilty int, err error) {
	tx := unit.Tx()
	begun := time.Now()
	all, es := make([]skald.Message, len(fresh)), make([]*partition.Entry, len(fresh))
	for n, i := range fresh {
		ms[i].ending = decide.Handled
		all[n], es[n] = copyOf(ms[i].e), ms[i].e
		_, ms[i].span = s.x.o.Telemetry.Process(ctx, &ms[i].e.Message, ms[i].e.Again+1)
	}
	ctx = lending.Watch(ctx)
	hctx, cancel := context.WithTimeout(withLoan(ctx, s.x.o.Group, tx, all[0]), s.x.o.Handle)
	defer cancel()
	h := *s.x.batchHandlers[ms[fresh[0]].e.Kind()]
	at, err := limited(ctx, s.x, es, func() (*int, error) { // nil after a panic
		i, err := h(hctx, tx, all)
		return &i, err
	})
	if hung(err) != nil {
		unit.Drop()
	}
	unit.Return() // before the context ends
	for _, i := range fresh {
		ms[i].took = time.Since(begun) / time.Duration(len(fresh))
	}
	switch {
	case err == nil:
		ms[fresh[0]].hooks = func() { lending.Committed(ctx) }
		return s.finishParked(ms, fresh), nobody, nil
	case at != nil && *at >= 0 && *at < len(fresh):
		return nil, fresh[*at], err
	}
	return nil, unnamed, err
}

// finishParked returns the effects that delete the parked rows of claimed messages.
func (s *batch[TTx]) finishParked(ms []member, fresh []int) (effects []store.Effect) {
	for _, i := range fresh {
		if free := s.x.finishParked(ms[i].e); free != nil {
			effects = append(effects, store.Effect{Finish: free})
		}
	}
	return effects
}
