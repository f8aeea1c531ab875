package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/internal/vitals"
	"github.com/skald-go/skald/store"
)

const (
	storeTimeout = 20 * time.Second // timeout of a call, unless the store has a shorter one
	noteEvery    = time.Minute      // interval for storing the definitions and reading those of other builds
	claimMost    = 128              // limit of sagas in one claim
	// lookMost is the shortest pause after a poll that found nothing. Each write in this process triggers a
	// poll, and most writes concern sagas already in progress here.
	lookMost = 5 * time.Millisecond
)

// Run runs sagas until ctx is done. Then it starts no further actions, waits up to Drain for the running
// ones, and releases its sagas. It returns an error if the database makes further work impossible, for
// example by missing tables.
func (e *Engine[TTx]) Run(ctx context.Context) error {
	if !e.running.CompareAndSwap(false, true) {
		return fmt.Errorf("saga: this engine runs already")
	}
	defer e.running.Store(false)
	e.introduce(ctx)
	hard, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	unhook := context.AfterFunc(ctx, func() { time.AfterFunc(e.o.Drain, kill) })
	defer unhook()
	e.mu.Lock()
	e.stop, e.workers = make(chan struct{}), new(sync.WaitGroup)
	e.mu.Unlock()
	var background sync.WaitGroup
	background.Go(func() {
		defer shortlog.LogPanic(hard, e.o.Logger, "saga engine")
		e.moves.Run(hard)
	})
	background.Go(func() { e.vitals.Watch(hard) })
	defer shortlog.LogPanic(ctx, e.o.Logger, "saga engine")
	err := e.loop(ctx, hard)
	e.running.Store(false)
	close(e.stop)
	stopping := time.Now()
	e.o.Logger.InfoContext(ctx, "saga: the engine stops", "in_hand", e.inHand.Load(), "at_most", e.o.Drain)
	e.awaitWorkers(ctx, hard)
	e.giveBack(hard)
	kill()
	background.Wait()
	why := "stopped"
	if err != nil {
		why = vitals.Why(err)
	}
	e.tally.SetReady(false, why)
	e.o.Logger.InfoContext(ctx, "saga: the engine has stopped", "took",
		time.Since(stopping).Round(time.Millisecond))
	return err
}

// awaitWorkers waits for the sagas in progress. If functions ignore the end of hard, awaitWorkers returns
// after leaveTime without them.
func (e *Engine[TTx]) awaitWorkers(ctx, hard context.Context) {
	idle := make(chan struct{})
	go func() {
		e.workers.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return
	case <-hard.Done():
	}
	timer := time.NewTimer(leaveTime)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
		e.o.Logger.WarnContext(ctx, "saga: the engine stops although functions ignore the end of their contexts; "+
			"their writes are rolled back")
	}
}

// leaveTime is the time that Run waits for functions after their contexts have ended.
const leaveTime = 2 * time.Second

// giveBack releases the sagas that were started in this process and that no worker has begun. Other engines
// then run them.
func (e *Engine[TTx]) giveBack(ctx context.Context) {
	for {
		select {
		case l := <-e.begun:
			e.mu.Lock()
			delete(e.arriving, refOf(l.Row))
			e.mu.Unlock()
			l.drop(ctx)
		default:
			return
		}
	}
}

func (e *Engine[TTx]) stopping() bool {
	select {
	case <-e.stop:
		return true
	default:
		return false
	}
}

// loop claims due sagas and starts a worker for each.
func (e *Engine[TTx]) loop(ctx, hard context.Context) error {
	var noted time.Time
	limit := backoff.NewLogLimit()
	var due, activity time.Time // times of the next poll, and of the last sign that sagas are due
	var looked time.Time        // time of the last poll, if it found nothing
	outages := 0
	for ctx.Err() == nil {
		woken, now := e.db.Woken(), time.Now()
		err := error(nil)
		if now.Sub(noted) >= noteEvery {
			if err = e.book.Note(hard); err == nil {
				noted = now
			}
		}
		room := e.room()
		if err == nil && !now.Before(due) && room <= 0 { // no event reports that there is room
			due = now.Add(lookMost)
		}
		if err == nil && !now.Before(due) {
			var n int
			var next time.Duration
			if n, next, err = e.claim(hard, room); err == nil {
				if looked = now; n > 0 {
					activity, looked = now, time.Time{}
				}
				due = now.Add(pause(now.Sub(activity), next, e.o.PollMost))
			}
		}
		switch {
		case err == nil:
			outages = 0
			limit.Over()
			e.tally.SetReady(true, "")
			e.vitals.Answered()
			e.logReady(ctx)
		case store.Incurable(err):
			return fmt.Errorf("saga: the engine stops: %w", err)
		case ctx.Err() != nil:
			return nil
		default:
			outages++
			if level := vitals.Level(err); limit.DueAs(level, now) {
				e.o.Logger.Log(ctx, level, "saga: waiting for the database", "error", err)
			}
			e.book.checked = false
			e.tally.SetReady(true, vitals.Why(err))
			e.vitals.Suspect()
			due = now.Add(backoff.After(outages, 50*time.Millisecond, time.Second))
			woken = nil
		}
		if e.sleep(ctx, hard, due, woken) {
			now := time.Now()
			activity, due = now, later(now, looked.Add(lookMost))
		}
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// pause returns the time until the next poll. The longer no poll has found a saga, the longer is the pause.
// Jitter keeps idle engines from polling at the same time. The parameter next is the time until the next
// saga is due, or negative if unknown.
func pause(idle, next, limit time.Duration) time.Duration {
	p := max(idle/20, time.Millisecond)
	if p >= limit {
		p = limit - time.Duration(rand.Int64N(int64(limit)/8+1))
	}
	if next >= 0 {
		p = min(p, max(next, time.Millisecond))
	}
	return p
}

// sleep waits until wakeTime. In the meantime it begins the sagas that are started in this process. It
// returns true if a write woke it: then a saga may be due.
func (e *Engine[TTx]) sleep(ctx, hard context.Context, wakeTime time.Time, woken <-chan struct{}) bool {
	timer := time.NewTimer(max(0, time.Until(wakeTime)))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return false
		case <-e.kicked:
			return true
		case l := <-e.begun:
			e.startWork(hard, l)
		case <-woken:
			return true
		}
	}
}

// room returns the number of further sagas that the engine may claim. It is limited so that each claimed saga
// gets a worker soon.
func (e *Engine[TTx]) room() int {
	waits := 2*cap(e.slots) - int(e.ready.Load())
	return min(waits, e.o.MaxSagas-int(e.inHand.Load()), claimMost)
}

// claim claims due sagas, at most room, and starts a worker for each.
func (e *Engine[TTx]) claim(ctx context.Context, room int) (n int, next time.Duration, err error) {
	ls, next, err := e.due(ctx, room)
	for _, l := range ls {
		e.startWork(ctx, l)
	}
	return len(ls), next, err
}

func (e *Engine[TTx]) due(ctx context.Context, room int) (ls []*live[TTx], next time.Duration, err error) {
	if e.gate.Taken() {
		return nil, asideWait, nil
	}
	within, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	c, err := e.db.Claim(within, store.ClaimRequest{Session: e.session, Lease: e.o.Lease,
		Sagas: &store.SagaClaimRequest{Hashes: e.book.Claimed(), Limit: room}})
	if err != nil {
		return nil, -1, fmt.Errorf("claim sagas: %w", err)
	}
	for _, s := range c.Sagas {
		if !s.Due.IsZero() {
			e.clock.Observed(s.Due.Add(-e.o.Lease))
		}
		l, err := e.claimed(ctx, s)
		if err != nil {
			e.leaveToOthers(ctx, s, err)
			continue
		}
		ls = append(ls, l)
	}
	now := e.setAside(ctx, ls)
	if len(now) < len(ls) && (c.Next < 0 || c.Next > asideWait) {
		c.Next = asideWait
	}
	return now, c.Next, nil
}

// claimed makes a claimed saga ready for work with this build's definition. It returns an error if this build
// cannot run the saga.
func (e *Engine[TTx]) claimed(ctx context.Context, s store.Saga) (*live[TTx], error) {
	d := e.book.Named(s.Name)
	if d == nil {
		return nil, fmt.Errorf("this build has no definition of %s", s.Name)
	}
	older, err := e.book.Before(ctx, s, d)
	if err != nil {
		return nil, err
	}
	l, err := e.newLive(s, d, older)
	if err == nil {
		l.Turn() // the saga may be due because its turn for a Lock has come
		l.suspect = s.Lapsed != "" && s.Lapsed != e.session
	}
	return l, err
}

// leaveToOthers releases a saga for another build, and stores the reason in the saga. The next write of the
// saga's state clears the reason.
func (e *Engine[TTx]) leaveToOthers(ctx context.Context, s store.Saga, why error) {
	e.tally.Refused(ctx, s, why)
	m := store.SagaUpdate{SagaRef: sagarow.Ref(s), State: s.State, SagaStatus: s.SagaStatus, Release: true,
		Wake: versionWait}
	now := e.clock.Now()
	if !sagarow.WasLeft(m.SagaStatus) {
		m.Since = now
	}
	if m.Retry.Before(now) { // Retry is in an index that finds such sagas
		m.Retry = now.Add(versionWait)
	}
	m.Error = sagarow.LeftToOthers + why.Error()
	_, _ = e.db.Apply(ctx, store.Effect{Saga: &m}) // after an error, the lease just ends
}

// Step claims due sagas and works on them in the caller's goroutine. It is for tests that control the order
// of events.
func (e *Engine[TTx]) Step(ctx context.Context) (busy bool, err error) {
	e.straight = true
	if now := e.o.Now(); e.noted.IsZero() || now.Sub(e.noted) >= noteEvery {
		if err := e.book.Note(ctx); err != nil {
			return false, err
		}
		e.noted = now
	}
	ls, _, err := e.due(ctx, e.room())
	for _, l := range ls {
		l.work(ctx)
		l.freeGate()
	}
	return len(ls) > 0, err
}
