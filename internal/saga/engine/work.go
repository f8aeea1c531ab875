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

// live is a saga that this process has in hand. One goroutine works on it.
type live[TTx any] struct {
	saga
	e     *Engine[TTx]
	then  []func()   // what follows once it is stored
	after *live[TTx] // the same saga, claimed again meanwhile

	since   time.Time     // when the lease began, by this process
	lease   time.Duration // how long it is
	seat    seat
	unit    store.Unit[TTx]
	slotted atomic.Bool // it may open a transaction
	givenUp atomic.Bool // a function of it hangs, or did: somebody else has the saga
	over    bool        // it was given back, or has ended
	unseen  bool        // it was started here, and may not be committed yet
	// it was taken over from a session that left it: what it was at may have ended the process
	suspect   bool
	sent      map[string]bool // requests whose intent was stored here and that nobody has made yet
	outages   int
	ended     atomic.Bool // whoever waits for it was told
	lostAlone alone

	refused *refusal // to be charged

	share shared // the transaction that was begun last
	apart int    // so many steps have a commit each, since they failed together
}

// taken is a saga that is leased to this session.
func (e *Engine[TTx]) taken(s store.Saga, d *Definition, older plan.Graph) (*live[TTx], error) {
	l := &live[TTx]{e: e, sent: map[string]bool{}}
	var err error
	if l.saga, err = newProgress(s, d, older, e.clock, e.straight); err != nil {
		return nil, err
	}
	l.Failed, l.Uncharged, l.Up = e.failed, e.o.Uncharged, e.up
	l.leased(e.o.Lease)
	return l, nil
}

// read takes s as what is so.
func (l *live[TTx]) read(s store.Saga, older plan.Graph) error {
	l.then, l.share = nil, shared{}
	err := l.Read(s, older)
	if err == nil {
		l.Turn() // that may be what moved it
	}
	return err
}

func (l *live[TTx]) leased(lease time.Duration) {
	l.since, l.lease = l.e.o.Now(), lease
	l.seat.LeaseEnd.Store(l.since.Add(lease).UnixNano())
}

// left is how much of the lease is left.
func (l *live[TTx]) left() time.Duration {
	now := l.e.o.Now()
	return l.lease - max(now.Sub(l.since), now.Round(0).Sub(l.since.Round(0)))
}

// employ has a goroutine work on l; or the one that has the saga in hand, once it is done with that.
func (e *Engine[TTx]) employ(ctx context.Context, l *live[TTx]) {
	at := refOf(l.Row)
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.coming, at)
	if was := e.hands[at]; was != nil && e.o.Now().UnixNano() < was.seat.LeaseEnd.Load() {
		was.after = l
		return
	}
	e.hands[at] = l // one whose lease is over hangs in a function, and cannot write any more
	e.inHand.Add(1)
	e.workers.Add(1)
	go func() {
		defer e.workers.Done()
		for l := l; l != nil; l = e.done(at, l) {
			l.survive(ctx)
			l.rise()
		}
	}()
}

// survive is work. A panic outside of the saga's own functions ends neither the process nor other sagas: it
// is logged with its stack, and the saga is claimed again after its lease.
func (l *live[TTx]) survive(ctx context.Context) {
	defer func() {
		if v := recover(); v != nil {
			l.e.o.Logger.ErrorContext(ctx, "saga: a panic outside of its functions; it is tried again after its lease",
				"saga", l.Row.Name, "key", l.Row.Key, "panic", fmt.Sprint(v))
			for i, frame := range shortlog.Frames(debug.Stack()) {
				l.e.o.Logger.ErrorContext(ctx, panicked, "saga", l.Row.Name, "frame", i, "at", frame)
			}
		}
	}()
	l.work(ctx)
}

// done is what is to be done about a saga after l; nil: nothing.
func (e *Engine[TTx]) done(at store.SagaRef, l *live[TTx]) *live[TTx] {
	e.mu.Lock()
	defer e.mu.Unlock()
	mine := e.hands[at] == l
	if l.givenUp.Load() {
		if mine {
			delete(e.hands, at)
		}
		return nil
	}
	if l.after != nil && mine {
		e.hands[at] = l.after
		return l.after
	}
	if mine {
		delete(e.hands, at)
	}
	e.inHand.Add(-1)
	return nil
}

// work goes on with a saga until it waits for something, or is somebody else's.
func (l *live[TTx]) work(ctx context.Context) {
	defer l.rollback(ctx)
	if l.unseen && !l.appear(ctx) {
		return
	}
	for {
		more, err := l.turn(ctx)
		var kin *familyError
		var no *refusal
		if l.unseen && errors.Is(err, errMoved) {
			same, there := l.look(ctx)
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
			l.complain(ctx, err)
			if !l.rest(ctx, backoff.After(l.outages, 20*time.Millisecond, time.Second)) {
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
			l.Think(ctx) // up to where it was
			l.Feed(kin.Event)
		}
	}
}

func (l *live[TTx]) complain(ctx context.Context, err error) {
	if l.givenUp.Load() { // it is the connection of the function that hung
		l.e.o.Logger.InfoContext(ctx, "saga: a function that did not return in time has returned, after "+
			"its attempt was charged: nothing of it is stored", "saga", l.Row.Name, "key", l.Row.Key, "error", err)
		return
	}
	l.e.tally.Unstored(ctx, l.Row, l.outages, err)
}

// rest waits; false: there is no time for that.
func (l *live[TTx]) rest(ctx context.Context, d time.Duration) bool {
	if l.e.straight || l.left() < d {
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

// reread takes the saga as it is stored now. False: it is somebody else's, or has ended.
func (l *live[TTx]) reread(ctx context.Context) bool {
	l.rollback(ctx)
	if l.givenUp.Load() {
		return false
	}
	s, there, err := l.e.find(ctx, l.Row.Name, l.Row.Key)
	if err != nil || !there || s.ID != l.Row.ID || s.Session != l.e.session || !s.Ended.IsZero() ||
		l.left() <= 0 {
		return false // after an error it is claimed again when its lease is over
	}
	older, err := l.e.book.Before(ctx, s, l.Def)
	return err == nil && l.read(s, older) == nil
}

// turn does what is next. More: there may be something after it.
func (l *live[TTx]) turn(ctx context.Context) (more bool, err error) {
	if l.over {
		return false, nil
	}
	if l.refused != nil {
		return true, l.charged(ctx)
	}
	l.Due()
	if l.suspect {
		if err := l.accuse(ctx); err != nil {
			return false, err
		}
	}
	if begins, err := l.enter(ctx); !begins {
		return false, err
	}
	defer l.e.gate.Leave(&l.seat)
	if !l.halts(ctx) && l.Note(l.hangs) {
		if err := l.write(ctx, 0); err != nil || l.over {
			return false, err
		}
	}
	l.ThinkAll(ctx)
	if l.halts(ctx) {
		return false, l.settleDown(ctx)
	}
	var asks []plan.Action
	if l.First() {
		return true, l.blamed(ctx, l.write(ctx, 0))
	}
	for _, a := range l.Next() {
		switch {
		case l.hangs(a):
		case l.asks(a):
			asks = append(asks, a)
		default:
			return true, l.transact(ctx, a)
		}
	}
	switch {
	case len(asks) > 0:
		return true, l.request(ctx, asks)
	case len(l.Pending()) > 0: // which hangs
		if l.chargeHung() {
			return true, l.write(ctx, 0)
		}
		return false, l.stepAside(ctx, hangWait)
	}
	return false, l.blamed(ctx, l.settleDown(ctx))
}

// halts tells whether nothing is to be begun any more.
func (l *live[TTx]) halts(ctx context.Context) bool {
	return l.left() <= 0 || l.givenUp.Load() || l.e.stopping() || ctx.Err() != nil
}

// hangs tells whether a function that a is about goes on in this process though its time is over, or a
// request is under way since an earlier claim.
func (l *live[TTx]) hangs(a plan.Action) bool { return l.e.hanging.Has(hangsOf(l.Row.ID, a)) }

// accuse notes, before a saga that was taken over goes on, that what it is at may have ended its process.
func (l *live[TTx]) accuse(ctx context.Context) error {
	l.charge()
	return l.write(ctx, 0)
}

// charge counts the end of a process against what the saga was at.
func (l *live[TTx]) charge() {
	l.suspect = false
	if l.Charge() {
		l.e.tally.TakenOver()
	}
}

// transact does what needs a transaction of the user's.
func (l *live[TTx]) transact(ctx context.Context, a plan.Action) error {
	if r, is := l.outside(a); is {
		return l.intend(ctx, a, r)
	}
	if run := l.function(a); run != nil {
		return l.local(ctx, a, run)
	}
	if step, _ := l.Def.Step(a.Step); step.Lock != nil {
		l.then = append(l.then, l.e.kick) // it may be the turn of another one
		return l.local(ctx, a, func(ctx context.Context, tx TTx, f *Facts) (plan.Event, error) {
			return holdStep(ctx, l.e.db, tx, &l.saga, a, f, l.e.clock.Now())
		})
	}
	l.Wrong(a, skald.Permanent(fmt.Errorf("this build cannot run the step %s", a.Step)))
	return nil
}
