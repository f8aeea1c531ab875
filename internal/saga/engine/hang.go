package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// hangWait is the time for which a saga with a hanging function is released. Another process may then run the
// saga.
const hangWait = 2 * time.Second

// hung is a function in a transaction that still runs after its timeout. The engine counts the attempt as
// failed, and releases the saga and its worker. This process does not call the function again while it hangs.
type hung[TTx any] struct {
	hangingFunction
	l    *live[TTx]
	a    plan.Action
	saga store.Saga // as read before the function began
	took time.Duration
	unit store.Unit[TTx]
}

// timed calls a user's function that runs in the transaction u. The engine gives up the function some seconds
// after its timeout, or after ctx ends. It then closes the connection, which releases the function's locks,
// and counts the attempt. If the engine fails to do so, the database ends the transaction a little later.
func (l *live[TTx]) timed(ctx context.Context, u store.Unit[TTx], a plan.Action, timeout time.Duration,
	f func() error) (err error) {
	defer u.Return() // before the function's context ends, because that end may roll back a savepoint
	l.e.gate.Expect(&l.gateState, timeout+graceTime)
	if l.e.straight {
		return l.Guard(f)
	}
	h := &hung[TTx]{hangingFunction: hangingFunction{Key: hangsOf(l.Row.ID, a)}, l: l, a: a, saga: l.Row,
		took: timeout, unit: u}
	wait := graceTime * 4 / 5
	if len(l.share.actions) > 1 { // the transaction also has locks of other steps, so wait less
		wait = graceTime / 5
	}
	timer := time.AfterFunc(timeout+wait, func() { l.e.hangs(ctx, h) })
	unhook := context.AfterFunc(ctx, func() { time.AfterFunc(graceTime/5, func() { l.e.hangs(ctx, h) }) })
	defer func() {
		timer.Stop()
		unhook()
		l.e.hanging.Returned(&h.hangingFunction)
		if l.givenUp.Load() { // the attempt has been counted already
			err = errors.Join(errLate, err)
		}
	}()
	return l.Guard(f)
}

// hangs gives up h, which has not returned in time, and counts the attempt. It tries again until the database
// answers.
func (e *Engine[TTx]) hangs(ctx context.Context, h *hung[TTx]) {
	if !e.hanging.Hangs(&h.hangingFunction, h.giveUp) {
		return
	}
	h.unit.Drop()
	h.l.unslot()
	e.o.Logger.ErrorContext(ctx,
		"saga: a function does not return, so it ignores its context: its transaction is rolled back, and the "+
			"attempt is counted",
		"saga", h.saga.Name, "key", h.saga.Key, "step", h.a.Step, "occurrence", h.a.Occurrence,
		"timeout", h.took)
	timer := time.NewTicker(time.Second)
	defer timer.Stop()
	for tries := 1; ; tries++ {
		again, err := e.countHang(ctx, h)
		if err != nil && tries&(tries-1) == 0 { // the first, second, fourth …
			e.o.Logger.WarnContext(ctx, "saga: the attempt of a function that does not return could not be counted",
				"saga", h.saga.Name,
				"key", h.saga.Key, "times", tries, "again", again, "error", err)
		}
		if !again {
			break
		}
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
	e.kick()
}

// giveUp excludes the saga's goroutine from the sagas in progress, and ends its lease.
func (h *hung[TTx]) giveUp() {
	h.l.e.inHand.Add(-1)
	h.l.givenUp.Store(true)
	h.l.gateState.LeaseEnd.Store(0)
}

// countHang counts the attempt of h as failed, and releases the saga. It returns retry=true if the database
// did not answer: then the caller must call countHang again.
func (e *Engine[TTx]) countHang(ctx context.Context, h *hung[TTx]) (retry bool, err error) {
	s, there, err := e.find(ctx, h.saga.Name, h.saga.Key)
	if err != nil {
		return true, err
	}
	if !there || s.ID != h.saga.ID || s.Version != h.saga.Version {
		return false, nil
	}
	older, err := e.book.Before(ctx, s, h.l.Def)
	if err != nil {
		return true, err
	}
	l, err := e.newLive(s, h.l.Def, older)
	if err != nil {
		return false, err
	}
	l.Prepare(ctx) // performs the actions before h.a
	if l.ApplyError(h.a, hangError(h.took)) {
		l.Prepare(ctx)
	} else { // earlier steps of its transaction must run again first
		e.hanging.CountLater(h.Key, h.took)
	}
	m, err := l.move(0)
	if err != nil {
		return false, err
	}
	m = l.GivenBack(m)
	return l.putAlone(ctx, m)
}

func hangError(took time.Duration) error {
	return fmt.Errorf("%w (%v), and does not return: it ignores its context", errSlow, took)
}

// countLateHangs counts attempts that countHang could not count, because other steps of the same transaction
// had to run again first.
func (l *live[TTx]) countLateHangs() (charged bool) {
	for _, a := range l.Pending() {
		if took, is := l.e.hanging.Uncounted(hangsOf(l.Row.ID, a)); is {
			charged = l.ApplyError(a, hangError(took)) || charged
		}
	}
	return charged
}

// putAlone writes m in its own commit. It waits for the lock of the hanging transaction, and other writes
// must not wait for that.
func (l *live[TTx]) putAlone(ctx context.Context, m store.SagaUpdate) (again bool, err error) {
	within, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if l.Related() {
		if err = l.putRelated(within, m); errors.Is(err, errMoved) {
			err = nil
		}
		return err != nil, err
	}
	stored, err := l.e.db.Apply(within, l.Effect(&m))
	if err != nil {
		return true, err
	}
	if stored[0] {
		l.noteStored(m)
	}
	return false, nil
}
