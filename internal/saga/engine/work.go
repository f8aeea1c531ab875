package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/store"
)

// live is a saga in progress in this process. One goroutine works on it.
type live[TTx any] struct {
	saga
	e     *Engine[TTx]
	then  []func()   // called after the next commit of the state
	after *live[TTx] // the next claim of the same saga

	since     time.Time     // start of the lease, by the local clock
	lease     time.Duration // length of the lease
	gateState gateState
	unit      store.Unit[TTx]
	slotted   atomic.Bool     // the saga has a worker, so it may open a transaction
	givenUp   atomic.Bool     // the saga's function hung, so any engine may have claimed the saga
	over      bool            // the saga was released, or has ended
	unseen    bool            // the saga was started here, and may not be committed yet
	suspect   bool            // the saga's last session ended, possibly by a crash of this saga
	sent      map[string]bool // requests stored here that no goroutine has sent yet
	outages   int
	ended     atomic.Bool // the saga's waiters were notified
	lostAlone alone

	refused *refusal // to count as a failed attempt before the next action

	share  shared // the last transaction
	single int    // number of steps to commit one by one, after a shared transaction failed
}

// newLive returns a live saga. This session must have its lease.
func (e *Engine[TTx]) newLive(s store.Saga, d *Definition, older plan.Graph) (*live[TTx], error) {
	l := &live[TTx]{e: e, sent: map[string]bool{}}
	var err error
	if l.saga, err = newProgress(s, d, older, e.clock, e.straight); err != nil {
		return nil, err
	}
	l.Failed, l.OutageRetryTime, l.Up = e.failed, e.o.OutageRetryTime, e.databaseUp
	l.hanging, l.pureTime = &e.hanging, e.o.Lease/2
	l.leased(e.o.Lease)
	return l, nil
}

// read replaces the state by s, which was just read.
func (l *live[TTx]) read(s store.Saga, older plan.Graph) error {
	l.then, l.share = nil, shared{}
	err := l.Read(s, older)
	if err == nil {
		l.Turn() // the saga's turn for a Lock may have come
	}
	return err
}

func (l *live[TTx]) leased(lease time.Duration) {
	l.since, l.lease = l.e.o.Now(), lease
	l.gateState.LeaseEnd.Store(l.since.Add(lease).UnixNano())
}

// leaseLeft returns the remaining time of the lease. It uses the monotonic and the wall clock, whichever
// shows less time.
func (l *live[TTx]) leaseLeft() time.Duration {
	now := l.e.o.Now()
	return l.lease - max(now.Sub(l.since), now.Round(0).Sub(l.since.Round(0)))
}

// startWork starts a goroutine that works on l. If a goroutine works on this saga already, that goroutine
// continues with l.
func (e *Engine[TTx]) startWork(ctx context.Context, l *live[TTx]) {
	at := refOf(l.Row)
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.arriving, at)
	if was := e.working[at]; was != nil && e.o.Now().UnixNano() < was.gateState.LeaseEnd.Load() {
		was.after = l
		return
	}
	e.working[at] = l // if another goroutine has the saga after its lease, it hangs, and cannot write
	e.inHand.Add(1)
	e.workers.Go(func() {
		for l := l; l != nil; l = e.endWork(at, l) {
			l.survive(ctx)
			l.freeGate()
		}
	})
}

// survive calls work, and recovers panics that did not occur in a user's function. It logs such a panic with
// its stack. The process and the other sagas continue; this saga is claimed again when its lease ends.
func (l *live[TTx]) survive(ctx context.Context) {
	defer func() {
		if v := recover(); v != nil {
			l.e.o.Logger.ErrorContext(ctx, "saga: a panic outside of its functions; the saga is retried after its lease",
				"saga", l.Row.Name, "key", l.Row.Key, "panic", fmt.Sprint(v))
			for i, frame := range shortlog.Frames(debug.Stack()) {
				l.e.o.Logger.ErrorContext(ctx, panicked, "saga", l.Row.Name, "frame", i, "at", frame)
			}
		}
	}()
	l.work(ctx)
}

// endWork ends the work on l. It returns the next claim of the same saga if there is one, or nil.
func (e *Engine[TTx]) endWork(at store.SagaRef, l *live[TTx]) *live[TTx] {
	e.mu.Lock()
	defer e.mu.Unlock()
	mine := e.working[at] == l
	if l.givenUp.Load() {
		if mine {
			delete(e.working, at)
		}
		return nil
	}
	if l.after != nil && mine {
		e.working[at] = l.after
		return l.after
	}
	if mine {
		delete(e.working, at)
	}
	e.inHand.Add(-1)
	return nil
}

// work continues a saga until the saga waits, ends, or another engine has it.
func (l *live[TTx]) work(ctx context.Context) {
	defer l.rollback(ctx)
	if l.unseen && !l.awaitCommit(ctx) {
		return
	}
	for {
		more, err := l.runTurn(ctx)
		var kin *familyError
		var no *refusal
		if l.unseen && errors.Is(err, errMoved) {
			same, there := l.awaitStart(ctx)
			if !there {
				return
			}
			if same {
				continue
			}
		}
		switch {
		case err == nil:
			l.outages, l.lostAlone = 0, 0
			if !more {
				return
			}
			continue
		case errors.As(err, &kin), errors.As(err, &no), errors.Is(err, errMoved):
		case errors.Is(err, errCrowded):
			l.crowded(ctx)
			return
		default:
			l.outages++
			l.e.suspect(ctx)
			l.logUnstored(ctx, err)
			if !l.sleep(ctx, backoff.After(l.outages, 20*time.Millisecond, time.Second)) {
				return
			}
		}
		if !l.reread(ctx) {
			return
		}
		if own := l.lostAlone.Own(err, l.Row.Version); own != nil {
			no = own
		}
		l.refused = no
		if kin != nil {
			l.Prepare(ctx) // performs the actions before kin.Event
			l.Feed(kin.Event)
		}
	}
}

func (l *live[TTx]) logUnstored(ctx context.Context, err error) {
	if l.givenUp.Load() { // err comes from the closed connection
		l.e.o.Logger.InfoContext(ctx, "saga: a function that did not return in time has returned, after "+
			"its attempt was counted: its writes are not stored", "saga", l.Row.Name, "key", l.Row.Key, "error", err)
		return
	}
	l.e.tally.Unstored(ctx, l.Row, l.outages, err)
}

// sleep waits for the duration d. It returns false if the lease or the engine ends before that.
func (l *live[TTx]) sleep(ctx context.Context, d time.Duration) bool {
	if l.e.straight || l.leaseLeft() < d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-l.e.stop:
	}
	return false
}

// reread reads the saga from the database. It returns false if another session has the saga, or if the saga
// has ended.
func (l *live[TTx]) reread(ctx context.Context) bool {
	l.rollback(ctx)
	if l.givenUp.Load() {
		return false
	}
	s, there, err := l.e.find(ctx, l.Row.Name, l.Row.Key)
	if err != nil || !there || s.ID != l.Row.ID || s.Session != l.e.session || !s.Ended.IsZero() ||
		l.leaseLeft() <= 0 {
		return false // after an error, the saga is claimed again when its lease ends
	}
	older, err := l.e.book.Before(ctx, s, l.Def)
	return err == nil && l.read(s, older) == nil
}

// runTurn performs the next actions. It returns moreActions=true if other actions may follow.
func (l *live[TTx]) runTurn(ctx context.Context) (moreActions bool, err error) {
	if l.over {
		return false, nil
	}
	if l.refused != nil {
		return true, l.storeRefusal(ctx)
	}
	l.Due()
	if l.suspect {
		if err := l.storeCrash(ctx); err != nil {
			return false, err
		}
	}
	if begins, err := l.enter(ctx); !begins {
		return false, err
	}
	defer l.e.gate.Leave(&l.gateState)
	if !l.halts(ctx) && l.Note(l.hangs) {
		if err := l.write(ctx, 0); err != nil || l.over {
			return false, err
		}
	}
	l.PrepareAll(ctx)
	if l.halts(ctx) {
		return false, l.settleDown(ctx)
	}
	var asks []plan.Action
	if l.First() {
		return true, l.blamePrepared(ctx, l.write(ctx, 0))
	}
	for _, a := range l.Next() {
		switch {
		case l.hangs(a):
		case l.isReadyRequest(a):
			asks = append(asks, a)
		default:
			return true, l.transact(ctx, a)
		}
	}
	switch {
	case len(asks) > 0:
		return true, l.request(ctx, asks)
	case len(l.Pending()) > 0: // all pending actions hang
		if l.countLateHangs() {
			return true, l.write(ctx, 0)
		}
		return false, l.stepAside(ctx, hangWait)
	}
	return false, l.blamePrepared(ctx, l.settleDown(ctx))
}

// halts reports whether the saga must not begin another action.
func (l *live[TTx]) halts(ctx context.Context) bool {
	return l.leaseLeft() <= 0 || l.givenUp.Load() || l.e.stopping() || ctx.Err() != nil
}

// hangs reports whether the function of a still runs in this process after its timeout. For a request it
// reports whether this process still sends it for an earlier claim.
func (l *live[TTx]) hangs(a plan.Action) bool { return l.e.hanging.Has(hangsOf(l.Row.ID, a)) }

// storeCrash stores that an action of a saga that was taken over may have crashed its process. The action
// runs only after that.
func (l *live[TTx]) storeCrash(ctx context.Context) error {
	l.countCrash()
	return l.write(ctx, 0)
}

// countCrash counts in memory the crash of a process against the saga's action.
func (l *live[TTx]) countCrash() {
	l.suspect = false
	if l.CountCrash() {
		l.e.tally.TakenOver()
	}
}

// transact performs an action that needs a user's transaction.
func (l *live[TTx]) transact(ctx context.Context, a plan.Action) error {
	if r, is := l.outside(a); is {
		return l.intend(ctx, a, r)
	}
	if run := l.function(a); run != nil {
		return l.local(ctx, a, run)
	}
	if step, _ := l.Def.Step(a.Step); step.Lock != nil {
		es, err := l.entities(a, step)
		if err != nil {
			l.ApplyError(a, err)
			return nil
		}
		l.then = append(l.then, l.e.kick) // this write may give the entities to another saga
		return l.local(ctx, a, func(ctx context.Context, tx TTx, _ *Facts) (plan.Event, error) {
			return holdStep(ctx, l.e.db, tx, &l.saga, a, es, l.e.clock.Now())
		})
	}
	l.ApplyError(a, skald.Permanent(fmt.Errorf("this build cannot run the step %s", a.Step)))
	return nil
}
