// This file emits the commands that follow replies in the same transaction that applies the replies. This
// saves a claim of the saga by the engine.

package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/lending"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

const (
	// draftMost limits the time of the functions that draft the commands of one saga in a transaction of
	// replies. It also limits their time for all sagas of this transaction together. The engine runs the
	// remaining ones, with usualTimeout each.
	draftMost = 250 * time.Millisecond
	// draftRest determines how long the engine emits the commands of a definition after a slow function:
	// draftRest times the function's duration. A busy machine delays functions too, so this time is short.
	draftRest = 10
	// emitMost limits the bytes of commands that one transaction of replies emits.
	emitMost = 4 << 20
	// triedMost limits the emissions with an unknown commit that the engine remembers.
	triedMost = 10_000
)

// emitNext adds to the effects of groups the commands that follow, and the ends of sagas. It works only in
// the transaction of an inbox, because it needs to observe the commit. It tries each version of a saga once.
// If the transaction fails, the engine emits the commands later, and counts a failed attempt of the step if
// the step is the reason.
func (e *Engine[TTx]) emitNext(ctx context.Context, tx TTx, groups []*replyGroup) {
	if !lending.OnCommit(ctx, tx, func() { e.repliesCommitted(groups) }) {
		return
	}
	bytes, begun := 0, time.Now()
	for _, to := range groups {
		if len(to.Effects) == 0 || to.needsEngine() || !e.follows.Try(to.Saga, e.o.Now()) {
			continue
		}
		if todo := to.commands(); len(todo) > 0 && bytes < emitMost && time.Since(begun) < draftMost {
			bytes += e.emit(ctx, to, todo)
		}
		to.endFinal()
	}
}

// repliesCommitted records that the transaction with the replies of groups is committed.
func (e *Engine[TTx]) repliesCommitted(groups []*replyGroup) {
	e.follows.Committed(groups)
	for _, to := range groups {
		if len(to.Effects) == 0 || !to.Effects[0].Saga.Final {
			continue
		}
		m, s := to.Effects[0].Saga, to.Saga
		s.Version, s.State, s.SagaStatus = m.Version+1, m.State, m.SagaStatus
		e.noteEnd(s, to.state)
	}
}

// needsEngine reports whether only the engine may continue the saga. This is the case if the saga has another
// definition than this build, uses locks, has a due time, or was in progress when its process ended.
func (g *replyGroup) needsEngine() bool {
	next := g.state.Next()
	return g.Saga.Hash != g.d.Hash || g.d.Plan.Locks() || !next.IsZero() && !next.After(g.now) ||
		slices.ContainsFunc(g.state.Runs, func(r plan.Run) bool { return r.Crashes > 0 || r.Alone })
}

// commands returns the saga's next actions if each of them is the first attempt at a command. Otherwise it
// returns none.
func (g *replyGroup) commands() []plan.Action {
	todo := g.d.Plan.Pending(g.state)
	for _, a := range todo {
		step, ok := g.d.Step(a.Step)
		if !ok || step.Command == nil || a.Attempt != 1 {
			return nil
		}
		run, _ := g.state.Run(a.Step, a.Occurrence)
		forward := a.Verb == plan.RunStep
		if run.Free.Times > 0 || !forward && (a.Verb != plan.UndoStep || step.Undo == nil) {
			return nil
		}
	}
	return todo
}

// emit drafts the commands of todo, adds them to the effects of the group g, and returns the size of their
// data. If a function fails or takes too long, or if the state becomes too large, emit changes nothing. The
// engine then emits the commands.
func (e *Engine[TTx]) emit(ctx context.Context, g *replyGroup, todo []plan.Action) (bytes int) {
	origin, err := sagarow.OriginOf(g.Saga)
	if err != nil {
		return 0
	}
	s := &saga{Def: g.d, Row: g.Saga, Origin: origin, State: g.state, clock: e.clock, straight: true,
		input: []byte(g.Saga.Input)}
	at := &drafting{name: g.Name, begun: e.o.Now()}
	done := make(chan error, 1)
	go func() {
		err := failure.Run(func() error { return s.draftCommands(todo) })
		e.follows.Returned(at, e.o.Now())
		done <- err
	}()
	timer := time.NewTimer(draftMost)
	defer timer.Stop()
	select {
	case err = <-done:
	case <-timer.C:
		if !e.follows.Slow(at) {
			err = <-done
			break
		}
		e.o.Logger.WarnContext(ctx, "saga: a request function is slow, so the engine sends the commands of its sagas",
			"saga", g.Name, "key", g.Key, "after", draftMost)
		return 0
	}
	if err != nil {
		return 0 // the engine calls the function again, and reports its error
	}
	m, err := sagarow.ReleaseMove(g.Saga, s.State, g.now, len(g.d.Plan.Pending(s.State)) > 0)
	if err != nil {
		return 0
	}
	g.state, g.Effects = s.State, []store.Effect{{Saga: &m, Rows: s.rows}}
	for _, row := range s.rows {
		bytes += len(row.Data)
	}
	return bytes
}

// draftCommands drafts the commands of todo, and applies their events in memory.
func (s *saga) draftCommands(todo []plan.Action) error {
	for _, a := range todo {
		step, _ := s.Def.Step(a.Step)
		e, m, err := s.draft(context.Background(), a, step)
		if err != nil {
			return err
		}
		if s.rows = append(s.rows, m); !s.Feed(e).Changed() {
			return errors.New("its saga does not ask for it")
		}
	}
	return nil
}

// draft returns the message of the command of a, and the event that the command was sent.
func (s *saga) draft(ctx context.Context, a plan.Action, step *StepBody) (e plan.Event, m skald.Message,
	err error) {
	e, c := plan.Event{What: plan.Sent, Step: a.Step, Occurrence: a.Occurrence}, step.Command
	if a.Verb == plan.UndoStep {
		e.What, c = plan.UndoSent, step.Undo
	}
	var d skald.Draft
	f := s.Facts(a)
	err = s.pure(a, func() (err error) {
		d, err = c.Draft(f)
		return err
	})
	if err == nil {
		m, err = s.message(ctx, a, d)
	}
	return e, m, err
}

// endFinal makes the transaction end a saga that is final and has no parent. The engine ends the others.
func (g *replyGroup) endFinal() {
	m := g.Effects[0].Saga
	if !g.state.Status.Final() {
		return
	}
	if origin, err := sagarow.OriginOf(g.Saga); err == nil && origin.Parent == nil {
		m.Final, m.Wake = true, -1
	}
}

// drafting is one run of the functions that draft the commands of a saga.
type drafting struct {
	name       string // of the definition
	begun      time.Time
	over, slow bool // guarded by following.mu
}

// following records the commands that were emitted in transactions of replies. The zero value is empty. It is
// safe for concurrent use.
type following struct {
	mu    sync.Mutex
	tried map[store.SagaRef]bool // emissions with an unknown commit
	slow  map[string]int         // by definition; slow draftings that have not returned
	rest  map[string]time.Time   // by definition; until this time the engine emits the commands
}

// Try records that commands are emitted for this version of the saga. It returns false if that was tried
// before, or if functions of the saga's definition are too slow.
func (f *following) Try(s store.Saga, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := sagarow.Ref(s)
	if f.tried[at] || f.slow[s.Name] > 0 || now.Before(f.rest[s.Name]) {
		return false
	}
	if f.tried == nil || len(f.tried) >= triedMost {
		f.tried = map[store.SagaRef]bool{}
	}
	f.tried[at] = true
	return true
}

// Committed records that the transaction with the replies of groups is committed.
func (f *following) Committed(groups []*replyGroup) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, to := range groups {
		delete(f.tried, sagarow.Ref(to.Saga))
	}
}

// Slow records that a drafting takes too long. It returns false if the drafting is over.
func (f *following) Slow(d *drafting) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d.over {
		return false
	}
	if f.slow == nil {
		f.slow, f.rest = map[string]int{}, map[string]time.Time{}
	}
	d.slow = true
	f.slow[d.name]++
	return true
}

// Returned records that a drafting is over.
func (f *following) Returned(d *drafting, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d.over = true; d.slow {
		f.slow[d.name]--
		f.rest[d.name] = now.Add(draftRest * now.Sub(d.begun))
	}
}
