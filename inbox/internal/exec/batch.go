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

// This file handles jobs of several messages that share transactions. Sharing only saves time: each message
// ends as it would alone. If a message fails, the transaction is rolled back, and this failure counts for no
// message. Then the failing message runs alone, at its place in the order. The other messages share again. So
// each handler runs at most once more.

// CanShare reports whether e may share a transaction. A message may share if it has not failed, may not have
// crashed a process, and makes no outside call. A message of a saga step may share only if it does the step
// and was not parked.
func (g *registry[TTx]) CanShare(e *partition.Entry) bool {
	if alone := g.unshared.Load(); alone != nil && (*alone)[e.Kind()] {
		return false
	}
	return g.sharesStep(e) && e.Again == 0 && !e.Troubled() && !e.NoSharing && !e.Foreign && e.Call == nil &&
		!e.Suspect && !e.Alone && e.Unreadable() == nil
}

// runAlone gives each message of k a transaction of its own from now on. It logs the first call for k.
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
	x.o.Logger.Info("inbox: a handler leaves state in its transaction; its messages share no transaction from now on",
		"consumer", x.o.Group, "topic", k.Topic, "type", k.Type, "error", store.ErrUnshared)
}

func (g *registry[TTx]) sharesStep(e *partition.Entry) bool {
	k := e.Kind()
	c, step := g.steps[k]
	_, call := g.calls[k]
	return !step || c.State == store.StepDone && !call && g.legacySteps == nil && g.batchHandlers[k] == nil &&
		e.Parked == nil
}

// member is a message of a batch with the state of its attempt.
type member struct {
	e      *partition.Entry
	intake store.Intake
	span   trace.Span
	took   time.Duration
	ending decide.Ending // the ending of a fresh message after the commit
	hooks  func()        // run after the commit
}

// batch is a job of several messages in progress.
type batch[TTx any] struct {
	x          *Executor[TTx]
	out        []Result
	blocked    map[*partition.Chain]bool // chains with a message that must be retried: later ones wait
	stopped    bool                      // no more messages can be attempted
	rolledBack bool                      // a transaction was rolled back

	collided time.Duration // time in transactions that collided with others
}

// workBatch handles a job of several messages.
func (x *Executor[TTx]) workBatch(ctx context.Context, job []*partition.Entry) []Result {
	s := &batch[TTx]{x: x, blocked: map[*partition.Chain]bool{}}
	for len(job) > 0 {
		var ms []member
		ms, job = x.nextMembers(ctx, job)
		s.attemptAll(ctx, ms)
	}
	s.out[0].RolledBack, s.out[0].Collided = s.rolledBack, s.collided
	return s.out
}

// nextMembers returns as ms the first of the messages es and the messages that can share its transaction.
// All of them have the same settings and the same batch handler, if any. No two of them share an identity or
// a step. If each has its own handler call, no two of them share an entity. The result others has the other
// messages. If it has an earlier message of a key, it also has the later messages of this key.
func (x *Executor[TTx]) nextMembers(ctx context.Context,
	es []*partition.Entry) (ms []member, others []*partition.Entry) {
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
			return []member{{e: e}}, es[1:] // the attempt at this message reports the error
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
			others = append(others, e)
			continue
		}
		for _, l := range intake.Locks {
			locks[l] = true
		}
		known[e.Given] = true
		ms = append(ms, member{e: e, intake: intake})
	}
	return ms, others
}

func (x *Executor[TTx]) shares(first member, e *partition.Entry, intake store.Intake) bool {
	a, b := first.e.Kind(), e.Kind()
	return x.batchHandlers[a] == x.batchHandlers[b] && slices.Equal(first.intake.Settings, intake.Settings) &&
		first.intake.Server == intake.Server && len(first.intake.Steps) == len(intake.Steps)
}

// Values of failing that are not an index. Failing is the index of the message that failed or needs a
// transaction of its own.
const (
	noMessage      = -1 // no message failed, but the transaction
	unknownMessage = -2 // a message failed, and its batch handler returned no index
)

// attemptAll attempts all the messages ms, in as few transactions as possible.
func (s *batch[TTx]) attemptAll(ctx context.Context, ms []member) {
	if ms = s.runnable(ms); len(ms) < 2 {
		s.attemptEach(ctx, ms)
		return
	}
	failing, err := s.try(ctx, ms)
	s.rolledBack = s.rolledBack || err != nil && !errors.Is(err, errAlone)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		s.stopped = true
		s.runnable(ms)
	case failing == noMessage:
		s.endFailed(ctx, ms, err)
	case hungEntries(err) != nil:
		s.endHung(ctx, ms, err)
	case failing == unknownMessage:
		s.attemptAll(ctx, ms[:len(ms)/2])
		s.attemptAll(ctx, ms[len(ms)/2:])
	default:
		s.retryEarlier(ctx, ms[:failing])
		s.attemptEach(ctx, ms[failing:failing+1])
		s.attemptAll(ctx, ms[failing+1:])
	}
}

// endHung ends ms after a handler ignored the end of its context. The messages of that handler fail: they may
// not run again while the handler runs. The other messages share again.
func (s *batch[TTx]) endHung(ctx context.Context, ms []member, err error) {
	failing := hungEntries(err)
	for len(ms) > 0 {
		n := slices.IndexFunc(ms, func(m member) bool { return slices.Contains(failing, m.e) })
		if n < 0 {
			s.attemptAll(ctx, ms)
			return
		}
		if n > 0 {
			s.attemptAll(ctx, ms[:n])
		}
		if e := ms[n].e; e.Prefetches || s.isBlocked(e) {
			s.add(Result{Entry: e, What: decide.NotAttempted})
		} else {
			s.add(s.x.fail(ctx, e, s.x.db.Apply, fmt.Errorf("handle %s: %w", e.TypeAndName(), err)))
		}
		ms = ms[n+1:]
	}
}

// retryEarlier attempts again the messages before a failing message. The handlers of these messages have
// already succeeded once.
func (s *batch[TTx]) retryEarlier(ctx context.Context, ms []member) {
	if ms = s.runnable(ms); len(ms) < 2 {
		s.attemptEach(ctx, ms)
		return
	}
	if failing, err := s.try(ctx, ms); err != nil && failing == noMessage {
		s.endFailed(ctx, ms, err)
	} else if err != nil {
		s.attemptEach(ctx, ms)
	}
}

// try calls transact. If the transaction collided with another one, it returns noMessage.
func (s *batch[TTx]) try(ctx context.Context, ms []member) (failing int, err error) {
	begun := time.Now()
	failing, err = s.transact(ctx, ms)
	if store.Contended(err) && (failing == noMessage || failure.IsOutage(err)) {
		s.collided += max(1, time.Since(begun))
		failing = noMessage
	}
	return failing, err
}

// endFailed ends the messages ms after their transaction itself failed. In an outage all these messages
// wait. Otherwise each message runs alone.
func (s *batch[TTx]) endFailed(ctx context.Context, ms []member, err error) {
	r := Result{Entry: ms[0].e, What: decide.Outage, Err: err}
	switch {
	case store.Incurable(err):
		r.What = decide.Broken
	case !s.x.db.Outage(err), store.Contended(err): // also store.ErrLent: only its message fails again
		s.attemptEach(ctx, ms)
		return
	case r.Entry.Parked != nil:
		s.x.releaseClaim(ctx, r.Entry, s.x.db.Apply)
	}
	s.stopped = true
	s.add(r)
	s.runnable(ms[1:])
}

// runnable returns the messages of ms that can be attempted. It ends the other messages as NotAttempted.
func (s *batch[TTx]) runnable(ms []member) []member {
	claimed := prefetchFilter()
	stays := func(m member) bool { return !claimed(m.e) || s.isBlocked(m.e) }
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

// attemptEach attempts each of the messages ms in a transaction of its own.
func (s *batch[TTx]) attemptEach(ctx context.Context, ms []member) {
	for _, m := range ms {
		if m.e.Prefetches || s.isBlocked(m.e) {
			s.add(Result{Entry: m.e, What: decide.NotAttempted})
		} else {
			s.add(s.x.attempt(ctx, m.e))
		}
	}
}

// transact attempts ms in one transaction. After a rollback it returns the index of the failing message.
// After the commit it ends the messages that already have a mark.
func (s *batch[TTx]) transact(ctx context.Context, ms []member) (failing int, err error) {
	bound, cancel := context.WithTimeout(ctx, s.x.o.Handle+s.x.o.Wait)
	defer cancel()
	all := joinIntakes(ms)
	begun := time.Now()
	unit, err := s.x.begin(bound, all)
	s.x.o.Telemetry.TookIn(ms[0].e.Topic, time.Since(begun))
	if err != nil {
		return noMessage, fmt.Errorf("take in %d messages: %w", len(ms), err)
	}
	if i := s.unfit(ms, unit.Found()); i != noMessage {
		_, _ = unit.Rollback(bound)
		return i, errAlone
	}
	found := unit.Found().Marks
	bound = withVersions(bound, all.Locks, unit.Found().Locks)
	var fresh []int
	for i := range ms {
		if found[i].Outcome == store.Fresh {
			fresh = append(fresh, i)
		}
	}
	if len(fresh) == 0 {
		_, _ = unit.Rollback(bound)
	} else if failing, err = s.carryOut(bound, unit, ms, fresh); err != nil {
		return failing, err
	}
	for i := range ms {
		switch e, v := ms[i].e, found[i]; {
		case v.Outcome == store.Fresh:
			s.add(Result{Entry: e, What: ms[i].ending, Took: ms[i].took})
		case e.Parked == nil && (v.Outcome == store.Done || v.Outcome == store.Rejected) &&
			s.x.DropsDuplicate(e, v):
			s.add(Result{Entry: e, What: decide.Duplicate})
		default:
			s.attemptEach(ctx, ms[i:i+1])
		}
	}
	return noMessage, nil
}

// errAlone makes a message run alone although it has not failed.
var errAlone = errors.New("the message needs a transaction of its own")

// unfit returns the index of the first message that a batch must not commit, because its intake changed a
// step in an unusual way. It returns noMessage if there is no such message.
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
	return noMessage
}

// joinIntakes returns one intake with the marks, entities and steps of all of ms.
func joinIntakes(ms []member) store.Intake {
	all := ms[0].intake
	all.Marks, all.Locks, all.Steps = make([]store.Mark, 0, len(ms)), nil, nil
	for i := range ms {
		all.Marks = append(all.Marks, ms[i].intake.Marks...)
		all.Locks = append(all.Locks, ms[i].intake.Locks...)
		all.Steps = append(all.Steps, ms[i].intake.Steps...)
	}
	return all
}

// carryOut runs the handlers of the fresh messages and commits.
func (s *batch[TTx]) carryOut(ctx context.Context, unit store.Unit[TTx], ms []member,
	fresh []int) (failing int, err error) {
	committed := false
	defer func() {
		if v := recover(); v != nil { // the message that caused the panic fails when it runs alone
			failing, err = unknownMessage, panicError(ms[0].e, v)
			if _, back := unit.Rollback(ctx); errors.Is(back, store.ErrLent) {
				failing, err = noMessage, back
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
	effects, failing, err := run(ctx, unit, ms, fresh)
	if hungEntries(err) != nil { // the function still uses the connection
		unit.Drop()
	} else if err != nil {
		err = s.x.asOutage(ctx, unit, err)
	}
	if err != nil {
		if _, back := unit.Rollback(ctx); errors.Is(back, store.ErrLent) {
			return noMessage, back
		}
		return failing, err
	}
	if err := unit.Commit(ctx, effects...); err != nil {
		if errors.Is(err, store.ErrUnshared) {
			for _, i := range fresh {
				s.x.runAlone(ms[i].e.Kind())
			}
		}
		return noMessage, s.x.handlerFault(ctx, fmt.Errorf("commit %d messages: %w", len(fresh), err))
	}
	committed = true
	for _, i := range fresh {
		if ms[i].hooks != nil {
			ms[i].hooks()
		}
	}
	return noMessage, nil
}

// runEach runs the handler of each fresh message, in order. After a rejection it uses savepoints for some
// time, so that the next rejection rolls back only one message.
func (s *batch[TTx]) runEach(ctx context.Context, unit store.Unit[TTx], ms []member,
	fresh []int) (effects []store.Effect, failing int, err error) {
	points := s.x.savepoints.Load() > 0
	defer func() { s.x.noteRejections(ms, fresh, err) }()
	for n, i := range fresh {
		var effect store.Effect
		var err error
		effect, err = s.runOne(ctx, unit, &ms[i], points && unit.Savepoint(ctx))
		if err == nil && n < len(fresh)-1 { // one handler's session state must not reach the next handler
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
	return effects, noMessage, nil
}

// savepointsAfterReject is the number of transactions with savepoints after a rejection.
const savepointsAfterReject = 64

// noteRejections enables savepoints for the next transactions if a message of ms was rejected.
func (x *Executor[TTx]) noteRejections(ms []member, fresh []int, err error) {
	rejects := func(i int) bool { return ms[i].ending == decide.Rejected }
	if answerOf(err, false).rejected != nil || slices.ContainsFunc(fresh, rejects) {
		x.savepoints.Store(savepointsAfterReject)
	} else if x.savepoints.Load() > 0 {
		x.savepoints.Add(-1)
	}
}

// runOne runs the handler of m. It writes the rows of the reply before the next handler runs. If m is
// rejected and has a savepoint, the other messages keep their work.
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

// prefetchFilter returns a function to call with the messages of a transaction, in order. The function
// returns false for a prefetched message if the transaction lacks the claimed message of its key.
func prefetchFilter() func(*partition.Entry) bool {
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
	fresh []int) (effects []store.Effect, failing int, err error) {
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
	at, err := runLimited(ctx, s.x, es, func() (*int, error) { // nil after a panic
		i, err := h(hctx, tx, all)
		return &i, err
	})
	if hungEntries(err) != nil {
		unit.Drop()
	}
	unit.Return() // before the context ends
	for _, i := range fresh {
		ms[i].took = time.Since(begun) / time.Duration(len(fresh))
	}
	switch {
	case err == nil:
		ms[fresh[0]].hooks = func() { lending.Committed(ctx) }
		return s.finishParked(ms, fresh), noMessage, nil
	case at != nil && *at >= 0 && *at < len(fresh):
		return nil, fresh[*at], err
	}
	return nil, unknownMessage, err
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
