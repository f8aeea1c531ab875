package exec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
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

// A batch is a job of several messages that share transactions. It only saves time: each message ends as it
// would alone. If a message fails, the transaction is rolled back and no message is charged. Then the guilty
// message runs alone, at its place, and the others share again: each handler runs at most once more.

// Sociable reports whether e may share a transaction. It came from the broker just now, or was claimed. It
// has killed no process, has not failed, and makes no call to the outside. A step of a saga shares only its
// first attempt to be taken.
func (g *registry[TTx]) Sociable(e *partition.Entry) bool {
	if alone := g.alone.Load(); alone != nil && (*alone)[e.Kind()] {
		return false
	}
	return g.sharesStep(e) && e.Again == 0 && !e.Troubled() && !e.Lonely && !e.Foreign && e.Call == nil &&
		!e.Suspect && !e.Alone && e.Unreadable() == nil
}

// runAlone gives each message of k a transaction of its own from now on, and logs that once.
func (x *Executor[TTx]) runAlone(k store.Kind) {
	for {
		was, next := x.alone.Load(), map[store.Kind]bool{k: true}
		if was != nil {
			if (*was)[k] {
				return
			}
			maps.Copy(next, *was)
		}
		if x.alone.CompareAndSwap(was, &next) {
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
	return !step || c.State == store.StepDone && !call && g.took == nil && g.many[k] == nil && e.Parked == nil
}

// A member is a message of a batch.
type member struct {
	e      *partition.Entry
	intake store.Intake
	span   trace.Span
	took   time.Duration
	ending decide.Ending // of a fresh message, if the transaction is committed
	hooks  func()        // for after the commit
}

// A sharing is a batch in progress.
type sharing[TTx any] struct {
	x    *Executor[TTx]
	out  []Result
	shut map[*partition.Chain]bool // a message of the key stays, so later ones stay, too
	down bool                      // no further message can be attempted
	fell bool                      // a transaction was rolled back

	collided time.Duration // in transactions that collided with those of rivals

	job   []*partition.Entry
	early func([]Result) // nil: results go out with the end of the job
	mu    sync.Mutex
	at    []*partition.Entry        // the messages that a handler has
	hung  []*partition.Entry        // the messages whose handler ignored its context
	given map[*partition.Entry]bool // with results that went out early
}

// share does a job of several messages.
func (x *Executor[TTx]) share(ctx context.Context, job []*partition.Entry) []Result {
	s := &sharing[TTx]{x: x, shut: map[*partition.Chain]bool{}, job: job}
	if d, _ := ctx.Value(workerKey{}).(*Worker[TTx]); d != nil && d.x == x {
		s.early = d.early
	}
	for len(job) > 0 {
		var ms []member
		ms, job = x.alike(ctx, job)
		s.take(ctx, ms)
	}
	s.out = slices.DeleteFunc(s.out, func(r Result) bool { return s.given[r.Entry] })
	s.out[0].Fell, s.out[0].Collided = s.fell, s.collided
	return s.out
}

// watched runs f, which runs one handler with the messages es. If f takes longer than most, the other keys of
// the job go back to their partitions. watched then drops the unit, if there is one.
func (s *sharing[TTx]) watched(unit store.Unit[TTx], es []*partition.Entry, most time.Duration, f func()) {
	if s.early == nil {
		f()
		return
	}
	s.mu.Lock()
	s.at = es
	s.mu.Unlock()
	defer time.AfterFunc(most, func() { s.giveUp(unit, es) }).Stop()
	f()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = nil
	s.down = s.down || s.hung != nil
}

func (s *sharing[TTx]) giveUp(unit store.Unit[TTx], es []*partition.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hung != nil || s.at == nil || s.at[0] != es[0] {
		return
	}
	s.hung, s.given = es, map[*partition.Entry]bool{}
	if unit != nil {
		unit.Drop()
	}
	keys := map[*partition.Chain]bool{}
	for _, e := range es {
		keys[e.Chain] = true
	}
	var out []Result
	stays := s.out[:0:0]
	ended := map[*partition.Entry]bool{}
	for _, r := range s.out {
		if ended[r.Entry] = true; keys[r.Entry.Chain] {
			stays = append(stays, r)
		} else {
			out = append(out, r)
		}
	}
	for _, other := range s.job {
		if !ended[other] && !keys[other.Chain] {
			out = append(out, Result{Entry: other, What: decide.NotAttempted})
		}
	}
	for i := range out {
		out[i].Early, s.given[out[i].Entry] = true, true
	}
	if s.out = stays; len(out) > 0 {
		s.early(out)
	}
}

// late ends ms after a handler ignored its context. A message that the handler had alone is charged. Of
// several none is charged, and each is tried alone. The others stay.
func (s *sharing[TTx]) late(ctx context.Context, ms []member) {
	s.fell = true
	for _, m := range ms {
		switch hung := slices.Contains(s.hung, m.e); {
		case hung && len(s.hung) == 1:
			s.note(s.x.failure(ctx, m.e, s.x.db.Apply, fmt.Errorf("%w (%v): it ignored its context for %v",
				failure.ErrTimeout, s.x.o.Handle, m.took.Round(time.Millisecond))))
		default:
			m.e.Lonely = m.e.Lonely || hung
			s.note(Result{Entry: m.e, What: decide.NotAttempted})
		}
	}
}

// alike returns the first of es and the messages that can share its transaction. They have the same settings
// and the same batch handler, if any. No two of them have one identity, one step, or one entity of a handler
// that runs per message. No earlier message of their keys is in rest.
func (x *Executor[TTx]) alike(ctx context.Context,
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
			return []member{{e: e}}, es[1:] // alone, it fails
		}
		if fits = fits && err == nil && (i == 0 || x.shares(ms[0], e, intake)); fits && e.Step != nil {
			step := [3]string{e.Step.Saga, e.Step.Name, e.Step.Occurrence}
			fits, steps[step] = !steps[step], true
		}
		// A transaction gives an entity one version, which is the fencing token of one handler's run.
		if x.many[e.Kind()] == nil {
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
	return x.many[a] == x.many[b] && slices.Equal(first.intake.Settings, intake.Settings) &&
		first.intake.Server == intake.Server && len(first.intake.Steps) == len(intake.Steps)
}

// Values of guilty that are no index.
const (
	nobody  = -1 // the transaction itself failed
	unnamed = -2 // a message failed, and its batch handler returned no index
)

// take attempts all of ms, in as few transactions as possible.
func (s *sharing[TTx]) take(ctx context.Context, ms []member) {
	if ms = s.going(ms); len(ms) < 2 {
		s.alone(ctx, ms)
		return
	}
	guilty, err := s.try(ctx, ms)
	s.fell = s.fell || err != nil && !errors.Is(err, errAlone)
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

// again attempts the messages before a guilty one. Their handlers have succeeded once.
func (s *sharing[TTx]) again(ctx context.Context, ms []member) {
	if ms = s.going(ms); len(ms) < 2 {
		s.alone(ctx, ms)
		return
	}
	if guilty, err := s.try(ctx, ms); err != nil && guilty == nobody {
		s.failed(ctx, ms, err)
	} else if err != nil {
		s.alone(ctx, ms)
	}
}

// try calls together. If the transaction collided with a rival's, no message is guilty.
func (s *sharing[TTx]) try(ctx context.Context, ms []member) (guilty int, err error) {
	begun := time.Now()
	guilty, err = s.together(ctx, ms)
	if store.Contended(err) && (guilty == nobody || failure.IsOutage(err)) {
		s.collided += max(1, time.Since(begun))
		guilty = nobody
	}
	return guilty, err
}

// failed ends ms after their transaction itself failed. In an outage they stay. Otherwise each runs alone.
func (s *sharing[TTx]) failed(ctx context.Context, ms []member, err error) {
	r := Result{Entry: ms[0].e, What: decide.Outage, Err: err}
	switch {
	case store.Incurable(err):
		r.What = decide.Broken
	case !s.x.db.Outage(err), store.Contended(err): // also store.ErrLent: only the guilty one fails again
		s.alone(ctx, ms)
		return
	case r.Entry.Parked != nil:
		s.x.giveBack(ctx, r.Entry, s.x.db.Apply)
	}
	s.down = true
	s.note(r)
	s.going(ms[1:])
}

// going returns the messages of ms that can be attempted; the others stay.
func (s *sharing[TTx]) going(ms []member) []member {
	led := leading()
	stays := func(m member) bool { return !led(m.e) || s.stays(m.e) }
	if !slices.ContainsFunc(ms, stays) {
		return ms
	}
	out := make([]member, 0, len(ms))
	for _, m := range ms {
		if stays(m) {
			s.note(Result{Entry: m.e, What: decide.NotAttempted})
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
	case decide.Again, decide.Outage, decide.NotParked, decide.Full, decide.NotAttempted:
		s.shut[r.Entry.Chain] = true
	case decide.Broken:
		s.down = true
	}
}

// alone attempts each of ms in its own transaction.
func (s *sharing[TTx]) alone(ctx context.Context, ms []member) {
	for _, m := range ms {
		if m.e.Prefetches || s.stays(m.e) {
			s.note(Result{Entry: m.e, What: decide.NotAttempted})
		} else {
			var r Result
			s.watched(nil, []*partition.Entry{m.e}, s.x.o.Handle+s.x.o.Wait+mercy,
				func() { r = s.x.attempt(ctx, m.e) })
			s.note(r)
		}
	}
}

// together attempts ms in one transaction. After a rollback it returns the index of the guilty message.
// Messages that are not fresh end after the commit.
func (s *sharing[TTx]) together(ctx context.Context, ms []member) (guilty int, err error) {
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
		_, _ = unit.Rollback(bound) // nothing was written
	} else if guilty, err = s.carryOut(bound, unit, ms, fresh); s.hung != nil {
		s.late(ctx, ms)
		return nobody, nil
	} else if err != nil {
		return guilty, err
	}
	for i := range ms {
		switch e, v := ms[i].e, found[i]; {
		case v.Outcome == store.Fresh:
			s.note(Result{Entry: e, What: ms[i].ending, Took: ms[i].took})
		case e.Parked == nil && (v.Outcome == store.Done || v.Outcome == store.Rejected) &&
			s.x.Harmless(e, v):
			s.note(Result{Entry: e, What: decide.Duplicate})
		default:
			s.alone(ctx, ms[i:i+1])
		}
	}
	return nobody, nil
}

// errAlone makes the guilty message run alone. It has not failed.
var errAlone = errors.New("the message needs a transaction of its own")

// unfit returns the first message with a step or a mark that the intake wrote and the batch must not commit.
// It returns nobody if there is none.
func (s *sharing[TTx]) unfit(ms []member, found store.Found) int {
	for i := range found.Steps {
		m, mark, was := &ms[i], found.Marks[i], found.Steps[i]
		if mark.Outcome != store.Fresh {
			if was.State == store.StepAbsent || was.State == store.StepParked || was.State == store.StepDead {
				return i
			}
			continue
		}
		facts := s.x.found(m.e, store.Found{Marks: []store.Verdict{mark}, Steps: []store.Step{was}},
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
func (s *sharing[TTx]) carryOut(ctx context.Context, unit store.Unit[TTx], ms []member,
	fresh []int) (guilty int, err error) {
	committed := false
	defer func() {
		if v := recover(); v != nil { // alone, the one that it is about panics again
			guilty, err = unnamed, bug(ms[0].e, v)
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
	run := s.each
	if s.x.many[ms[0].e.Kind()] != nil {
		run = s.atOnce
	}
	effects, guilty, err := run(ctx, unit, ms, fresh)
	if err != nil {
		err = s.x.unitsOwn(ctx, unit, err)
		if _, back := unit.Rollback(ctx); errors.Is(back, store.ErrLent) {
			return nobody, back
		}
		return guilty, err
	}
	if err := unit.Commit(ctx, effects...); err != nil {
		return nobody, s.x.lent(ctx, fmt.Errorf("commit %d messages: %w", len(fresh), err))
	}
	committed = true
	for _, i := range fresh {
		if ms[i].hooks != nil {
			ms[i].hooks()
		}
	}
	return nobody, nil
}

// each runs the handler of each fresh message, in their order.
func (s *sharing[TTx]) each(ctx context.Context, unit store.Unit[TTx], ms []member,
	fresh []int) (effects []store.Effect, guilty int, err error) {
	points := s.x.wary.Load() > 0
	defer func() { s.x.noteRejections(ms, fresh, err) }()
	for n, i := range fresh {
		var leaves store.Effect
		var err error
		point := points && unit.Savepoint(ctx)
		s.watched(unit, []*partition.Entry{ms[i].e}, s.x.o.Handle+mercy,
			func() { leaves, err = s.one(ctx, unit, &ms[i], point) })
		if s.hung != nil {
			return nil, i, failure.ErrTimeout
		}
		if err == nil && n < len(fresh)-1 { // the next handler must not meet state of this one
			err = unit.Usable(ctx)
		}
		if errors.Is(err, store.ErrUnshared) {
			s.x.runAlone(ms[i].e.Kind())
			err = errAlone
		}
		if err != nil {
			return nil, i, err
		}
		if !reflect.ValueOf(leaves).IsZero() {
			effects = append(effects, leaves)
		}
	}
	return effects, nobody, nil
}

// wariness is how many transactions after a rejection have savepoints.
const wariness = 64

// noteRejections notes a transaction with a rejection, after which the next ones have savepoints.
func (x *Executor[TTx]) noteRejections(ms []member, fresh []int, err error) {
	rejects := func(i int) bool { return ms[i].ending == decide.Rejected }
	if answerOf(err, false).no != nil || slices.ContainsFunc(fresh, rejects) {
		x.wary.Store(wariness)
	} else if x.wary.Load() > 0 {
		x.wary.Add(-1)
	}
}

// one runs the handler of m, and writes the messages of its answer before those of the next one. If m is
// rejected and has a savepoint, the others keep their work.
func (s *sharing[TTx]) one(ctx context.Context, unit store.Unit[TTx], m *member,
	point bool) (leaves store.Effect, err error) {
	begun := time.Now()
	ctx, m.span = s.x.o.Telemetry.Process(ctx, &m.e.Message, m.e.Again+1)
	ctx = lending.Watch(ctx)
	m.ending, m.hooks = decide.Handled, func() { lending.Committed(ctx) }
	r, err := s.x.run(ctx, m.e, unit)
	if err == nil {
		leaves, err = s.x.leaves(ctx, m.e, r, m.intake, decide.ReturnedNil)
	} else if no := answerOf(err, false).no; no != nil && point && !s.x.o.Rejections && s.x.beside == nil &&
		unit.Undo(ctx) == nil {
		m.ending, m.hooks = decide.Rejected, nil
		leaves, err = s.x.verdict(ctx, m.e, m.intake, no, r)
		leaves.Answer, leaves.Mark = leaves.Mark, nil // the intake wrote the mark
		if leaves.Step != nil {                       // and took the step
			leaves.Step.From = []store.StepState{store.StepDone}
		}
	}
	if err == nil && len(leaves.Rows) > 0 {
		err = s.x.db.Write(ctx, unit.Tx(), store.Effect{Rows: leaves.Rows})
	}
	leaves.Rows = nil
	m.took = time.Since(begun)
	return leaves, err
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

// atOnce gives the fresh messages to their batch handler.
func (s *sharing[TTx]) atOnce(ctx context.Context, unit store.Unit[TTx], ms []member,
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
	hctx, cancel := context.WithTimeout(lends(ctx, s.x.o.Group, tx, all[0]), s.x.o.Handle)
	defer cancel()
	over := s.x.acts.begin(s.x.o.Handle, es...)
	at := unnamed
	s.watched(unit, es, s.x.o.Handle+mercy, func() {
		at, err = safelyMany(*s.x.many[ms[fresh[0]].e.Kind()], hctx, tx, all)
		unit.Return() // before its context ends
	})
	over()
	for _, i := range fresh {
		ms[i].took = time.Since(begun) / time.Duration(len(fresh))
	}
	switch {
	case s.hung != nil:
		return nil, unnamed, failure.ErrTimeout
	case err == nil:
		ms[fresh[0]].hooks = func() { lending.Committed(ctx) }
		return s.freed(ms, fresh), nobody, nil
	case at >= 0 && at < len(fresh):
		return nil, fresh[at], err
	}
	return nil, unnamed, err
}

// freed returns the effects that delete the parked rows of claimed messages.
func (s *sharing[TTx]) freed(ms []member, fresh []int) (effects []store.Effect) {
	for _, i := range fresh {
		if free := s.x.freed(ms[i].e); free != nil {
			effects = append(effects, store.Effect{Finish: free})
		}
	}
	return effects
}

func safelyMany[TTx any](h BatchHandler[TTx], ctx context.Context, tx TTx,
	ms []skald.Message) (guilty int, err error) {
	guilty = unnamed // unless it returns
	err = guarded[TTx](ctx, func() (err error) {
		guilty, err = h(ctx, tx, ms)
		return err
	})
	return guilty, err
}
