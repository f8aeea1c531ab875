// This file limits how many workers wait for locked entities, so that other messages still find a worker.

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

// shortWait is how long an intake waits for entities while half of the workers already wait for entities.
const shortWait = 100 * time.Millisecond

// entityWaits limits the workers that wait at the database for locked entities. The zero value has no limit.
// It is safe for concurrent use.
type entityWaits struct {
	workers int

	mu      sync.Mutex
	asking  int                 // intakes with entities that the database executes now
	asked   map[store.Lock]int  // such intakes by entity
	refused map[store.Lock]bool // entities for which the last full wait timed out
}

// mostRefused is the maximum number of entities in refused.
const mostRefused = 1000

var (
	errEntityQueue = errors.New("inbox: other workers wait for its entity")
	errEntityBusy  = errors.New("inbox: its entity is in use")
)

// enter admits an intake that locks these entities and waits at most maxWait for them. It returns
// errEntityQueue if a quarter of the workers already wait for one of the entities. If the last full wait for
// an entity timed out, only one worker may wait for that entity; for other workers enter returns
// errEntityBusy.
//
// The result wait is how long the intake may wait: maxWait, or shortWait while half of the workers wait for
// entities. The caller must call the function done with the result of the intake.
func (w *entityWaits) enter(locks []store.Lock, maxWait time.Duration) (wait time.Duration, done func(error),
	err error) {
	if w.workers == 0 || len(locks) == 0 {
		return maxWait, func(error) {}, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range locks {
		switch n := w.asked[l]; {
		case n > 0 && w.refused[l]:
			return 0, nil, errEntityBusy
		case n >= max(1, w.workers/4):
			return 0, nil, errEntityQueue
		}
	}
	if w.asked == nil {
		w.asked, w.refused = map[store.Lock]int{}, map[store.Lock]bool{}
	}
	for _, l := range locks {
		w.asked[l]++
	}
	wait = maxWait
	if w.asking++; w.asking > max(1, w.workers/2) {
		wait = min(maxWait, shortWait)
	}
	return wait, func(err error) { w.leave(locks, wait == maxWait, err) }, nil
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

// begin begins the transaction of an intake, if entityWaits admits it.
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
		return nil, errors.Join(errEntityQueue, err)
	}
	return unit, err
}

// waitForEntity ends an attempt at a message if another transaction uses its entity. The message waits in its
// partition without a worker until its next attempt. After Config.Wait without its entity it fails like a
// message that waited at the database. It returns false for other errors.
func (x *Executor[TTx]) waitForEntity(ctx context.Context, e *partition.Entry,
	err error) (r Result, is bool) {
	switch busy := errors.Is(err, errEntityBusy); {
	case !busy && !errors.Is(err, errEntityQueue):
		e.BusySince = time.Time{}
		return r, false
	case busy, errors.Is(err, store.ErrBusy) && !e.BusySince.IsZero() && time.Since(e.BusySince) >= x.o.Wait:
		e.BusySince = time.Time{}
		return x.intakeFailed(ctx, e, errors.Join(store.ErrBusy, err)), true
	}
	if e.BusySince.IsZero() {
		e.BusySince = time.Now()
	}
	cost := time.Millisecond
	if errors.Is(err, store.ErrBusy) {
		cost = shortWait
	}
	// Together such messages use one worker on average, so that they do not delay later messages.
	after := min(time.Duration(1+x.o.InPlace())*cost, x.o.Wait)
	return Result{Entry: e, What: decide.Again, Untouched: true, Err: err,
		After: max(after, x.releaseClaim(ctx, e, x.db.Apply))}, true
}
