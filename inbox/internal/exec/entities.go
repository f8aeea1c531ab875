package exec

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// shortWait is how long an intake waits for entities while half of the workers do.
const shortWait = 100 * time.Millisecond

// entityWaits bounds how many workers wait at the database for entities that others hold. The zero value
// bounds nothing. It is for any goroutine.
type entityWaits struct {
	workers int

	mu      sync.Mutex
	asking  int // intakes with entities that the database has not answered
	asked   map[store.Lock]int
	refused map[store.Lock]bool // by the last intake that waited for the whole time
}

// mostRefused bounds how many entities are remembered as refused.
const mostRefused = 1000

var (
	errTurn = errors.New("inbox: other workers wait for its entity")
	errHeld = errors.New("inbox: its entity is in use")
)

// enter admits an intake of locks that waits for up to whole. A quarter of the workers may wait for one
// entity: the others get errTurn. They get errHeld if the entity was refused a moment ago: then one worker
// waits for it. Call done with the answer of the database. While half of the workers wait for entities, wait
// is shortWait.
func (w *entityWaits) enter(locks []store.Lock, whole time.Duration) (wait time.Duration, done func(error),
	err error) {
	if w.workers == 0 || len(locks) == 0 {
		return whole, func(error) {}, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range locks {
		switch n := w.asked[l]; {
		case n > 0 && w.refused[l]:
			return 0, nil, errHeld
		case n >= max(1, w.workers/4):
			return 0, nil, errTurn
		}
	}
	if w.asked == nil {
		w.asked, w.refused = map[store.Lock]int{}, map[store.Lock]bool{}
	}
	for _, l := range locks {
		w.asked[l]++
	}
	wait = whole
	if w.asking++; w.asking > max(1, w.workers/2) {
		wait = min(whole, shortWait)
	}
	return wait, func(err error) { w.leave(locks, wait == whole, err) }, nil
}

func (w *entityWaits) leave(locks []store.Lock, waited bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asking--
	if len(w.refused) >= mostRefused {
		clear(w.refused)
	}
	for _, l := range locks {
		if w.asked[l]--; w.asked[l] <= 0 {
			delete(w.asked, l)
		}
		switch {
		case err == nil:
			delete(w.refused, l)
		case waited && errors.Is(err, store.ErrBusy):
			w.refused[l] = true
		}
	}
}

// begin begins the transaction of an intake that the entities admit.
func (x *Executor[TTx]) begin(ctx context.Context, intake store.Intake) (store.Unit[TTx], error) {
	wait, done, err := x.waits.enter(intake.Locks, intake.Wait)
	if err != nil {
		return nil, err
	}
	whole := intake.Wait
	intake.Wait = wait
	unit, err := x.db.Begin(ctx, intake)
	done(err)
	if wait < whole && errors.Is(err, store.ErrBusy) {
		return nil, errors.Join(errTurn, err)
	}
	return unit, err
}

// inLine answers a message after its entity was in use. The message waits at its place without a worker, and
// is tried again. After x.o.Wait without its entity it fails as if it had waited at the database.
func (x *Executor[TTx]) inLine(ctx context.Context, e *partition.Entry, err error) (r Result, is bool) {
	switch held := errors.Is(err, errHeld); {
	case !held && !errors.Is(err, errTurn):
		e.InLine = time.Time{}
		return r, false
	case held, errors.Is(err, store.ErrBusy) && !e.InLine.IsZero() && time.Since(e.InLine) >= x.o.Wait:
		e.InLine = time.Time{}
		return x.takeFailed(ctx, e, errors.Join(store.ErrBusy, err)), true
	}
	if e.InLine.IsZero() {
		e.InLine = time.Now()
	}
	cost := time.Millisecond
	if errors.Is(err, store.ErrBusy) {
		cost = shortWait
	}
	// together they occupy one worker on average: else they crowd out messages that came later
	after := min(time.Duration(1+x.o.InPlace())*cost, x.o.Wait)
	return Result{Entry: e, What: decide.Again, Untouched: true, Err: err,
		After: max(after, x.giveBack(ctx, e, x.db.Apply))}, true
}
