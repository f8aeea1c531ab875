package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// hangWait is how long a saga with a hanging function is released, so that another process may run it.
const hangWait = 2 * time.Second

// hung is a function that runs in a transaction after its timeout. The attempt counts, the saga and its
// worker are released, and this process does not call the function again while it hangs.
type hung[TTx any] struct {
	hangingFunction
	l    *live[TTx]
	a    plan.Action
	saga store.Saga // as it was read
	took time.Duration
	unit store.Unit[TTx]
}

// timed calls Guard for a function in a transaction. If the function runs too long after its timeout, or
// after the engine's end, the engine gives it up. It closes the connection, so the locks are released, and
// counts the attempt. The database itself ends such a transaction a little later.
func (l *live[TTx]) timed(ctx context.Context, u store.Unit[TTx], a plan.Action, timeout time.Duration,
	f func() error) (err error) {
	defer u.Return() // before its context ends, which may roll back a savepoint
	l.e.gate.Expect(&l.seat, timeout+graceTime)
	if l.e.straight {
		return l.Guard(f)
	}
	h := &hung[TTx]{hangingFunction: hangingFunction{Key: hangsOf(l.Row.ID, a)}, l: l, a: a, saga: l.Row,
		took: timeout, unit: u}
	wait := graceTime * 4 / 5
	if len(l.share.actions) > 1 { // other steps' locks, too
		wait = graceTime / 5
	}
	timer := time.AfterFunc(timeout+wait, func() { l.e.hangs(ctx, h) })
	unhook := context.AfterFunc(ctx, func() { time.AfterFunc(graceTime/5, func() { l.e.hangs(ctx, h) }) })
	defer func() {
		timer.Stop()
		unhook()
		l.e.hanging.Returned(&h.hangingFunction)
		if l.givenUp.Load() { // its result does not count
			err = errors.Join(errLate, err)
		}
	}()
	return l.Guard(f)
}

// hangs is called a while after the timeout of a function.
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
		again, err := e.chargeHang(ctx, h)
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

// giveUp gives up the goroutine in which h hangs.
func (h *hung[TTx]) giveUp() {
	h.l.e.inHand.Add(-1)
	h.l.givenUp.Store(true)
	h.l.seat.LeaseEnd.Store(0)
}

// chargeHang counts the attempt as failed, and releases the saga. Again reports that it must be called
// again, because the database did not answer.
func (e *Engine[TTx]) chargeHang(ctx context.Context, h *hung[TTx]) (again bool, err error) {
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
	l, err := e.taken(s, h.l.Def, older)
	if err != nil {
		return false, err
	}
	l.Prepare(ctx) // the actions before it
	if l.Wrong(h.a, hangError(h.took)) {
		l.Prepare(ctx)
	} else { // it follows steps of its transaction, which have to run again first
		e.hanging.ChargeLater(h.Key, h.took)
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

// chargeHung counts the attempt of a function that hangs, if chargeHang could not, because the function
// hung behind other steps of its transaction.
func (l *live[TTx]) chargeHung() (charged bool) {
	for _, a := range l.Pending() {
		if took, is := l.e.hanging.Uncounted(hangsOf(l.Row.ID, a)); is {
			charged = l.Wrong(a, hangError(took)) || charged
		}
	}
	return charged
}

// putAlone writes m in its own transaction: it waits for a lock, and other writes should not wait for that.
func (l *live[TTx]) putAlone(ctx context.Context, m store.SagaUpdate) (again bool, err error) {
	within, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if l.Related() {
		if err = l.putRelated(within, m); errors.Is(err, errMoved) {
			err = nil
		}
		return err != nil, err
	}
	stood, err := l.e.db.Apply(within, l.Effect(&m))
	if err != nil {
		return true, err
	}
	if stood[0] {
		l.wrote(m)
	}
	return false, nil
}
