package inbox

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/checkpoint"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/shortlog"
)

// loop runs an inbox for one call of Run. Only the goroutine of Run accesses the inbox; workers receive
// entries and return results.
type loop[TTx any] struct {
	in *Inbox[TTx]
	// jobs has the jobs that wait for a worker. A job is one message or a batch.
	jobs         chan []*partition.Entry
	workers      int                  // started workers
	results      chan []exec.Result   // buffered, so a worker never blocks after the loop exits
	looks        chan looked          // results of reads of the parked messages
	looking      bool                 // a claim of parked messages is in progress
	counting     bool                 // a count of parked messages is in progress
	storeCalls   chan checkpoint.Call // the result of the store call in progress
	callingStore bool                 // a store call is in progress
	running      int                  // jobs that the workers have
	stuck        int                  // handlers that ignore the end of their context
	stuckAt      time.Time            // when stuck was counted
	stuckSince   time.Time            // by Options.Now: when Inbox.allStuck was set
	renewing     atomic.Bool          // a renewal of claims is in progress
	assigned     map[*partition.Entry]assignment
	hard         context.Context // of the handlers and the calls; ends after Timeouts.Drain
	timer        *time.Timer     // for await
	outages      int             // failed turns in a row
	healthAt     time.Time       // when Health was last updated
	stale        bool            // Health is not up to date
}

func (l *loop[TTx]) run(ctx context.Context) error {
	var pause time.Duration
	for ctx.Err() == nil {
		busy, err := l.doReadyWork(ctx)
		if err != nil {
			return err
		}
		if pause = 0; l.outages > 0 {
			pause = backoff.After(l.outages, 50*time.Millisecond, 2*time.Second)
			busy = false
		}
		if busy && l.running < l.in.pick.Most() {
			continue // there may be more at the broker
		}
		if err := l.await(ctx, pause); err != nil {
			return err
		}
	}
	return nil
}

// spawn starts a goroutine that runs f. A panic of f is logged before it ends the process.
func (l *loop[TTx]) spawn(f func()) {
	go func() {
		defer shortlog.LogPanic(l.hard, l.in.o.Logger, "consumer "+l.in.group)
		f()
	}()
}

// doReadyWork does all work that needs no waiting.
func (l *loop[TTx]) doReadyWork(ctx context.Context) (busy bool, err error) {
	in := l.in
	if !l.callingStore { // a store call in progress is about the current partitions
		in.joinWithFound(ctx)
	}
	if !l.outside(ctx) {
		busy, err = in.receive(ctx)
	}
	in.tel.Counted()
	l.countStuck()
	if err == nil {
		in.schedule.Wake(in.o.Now())
		l.look()
		l.start()
		_, err = in.ack(ctx)
		l.startStoreCall()
	}
	in.regulate()
	now := time.Now()
	switch {
	case ctx.Err() != nil:
	case err == nil:
		l.outages = 0
		in.outage.Over(now)
	case errors.Is(err, ErrPositions), errors.Is(err, broker.ErrClosed): // or a new session replaced it
		in.report(err)
		return busy, fmt.Errorf("consumer %s: %w", in.group, err)
	default:
		l.outages++
		in.outage.Failed(now, err)
		in.facts.broker.Suspect()
		if in.sub == nil { // the error may come from the database
			in.suspectOutage(ctx)
		}
	}
	l.updateHealth(now, err != nil)
	return busy, nil
}

// healthEvery is how old Health may be. An update is not done more often because it reads all waiting chains.
const healthEvery = 100 * time.Millisecond

func (l *loop[TTx]) updateHealth(now time.Time, failed bool) {
	why, due := l.in.outage.Why(), failed || now.Sub(l.healthAt) >= healthEvery
	if l.stale = !due || why != nil; due { // during an outage, update again soon to notice its end
		l.healthAt = now
		l.watchProgress()
		l.in.report(why)
	}
}

// freeSlots returns how many more jobs may start now, or how long no job may start. If the database did not
// answer, freeSlots probes it again, and no job may start.
func (l *loop[TTx]) freeSlots() (n int, shut time.Duration) {
	if l.in.probe.Last().Err != nil {
		l.in.probe.Ask(l.hard)
		return 0, max(l.in.probe.Wait(), 10*time.Millisecond)
	}
	if l.in.allStuck != "" {
		return 0, overdueEvery
	}
	wait, alone := l.in.breaker.Restrict(l.in.o.Now())
	switch {
	case wait > 0:
		return 0, wait
	case alone:
		return 1 - l.running, 0
	}
	return l.in.pick.Most() - l.running, 0
}

// look starts a claim of parked messages, a count of them, or both in the background, if they are due.
func (l *loop[TTx]) look() {
	most, count, _ := l.in.parked.Wants(l.in.parked.Rest())
	session := l.in.checkpoints.Session()
	if most.Keys > 0 && !l.looking {
		l.looking = true
		a := ask{Session: session, Most: most, Others: l.in.checkpoints.Others()}
		if l.mayCallStore() {
			a.SyncCall, a.Syncs = l.in.checkpoints.InClaim(l.in.o.Now())
			l.callingStore = a.Syncs
		}
		l.spawn(func() { l.looks <- l.in.parked.Look(l.hard, a) })
	}
	if count && !l.counting {
		l.counting = true
		l.in.parked.Counting()
		l.spawn(func() { l.looks <- l.in.parked.Look(l.hard, ask{Session: session, Count: true}) })
	}
}

// start gives jobs of ready messages to free workers.
func (l *loop[TTx]) start() {
	for {
		if n, _ := l.freeSlots(); n <= 0 {
			return
		}
		job := l.in.pick.Next(l.running)
		if job == nil {
			return
		}
		l.running++
		for _, e := range job {
			l.assigned[e] = assignment{claimed: e.Parked != nil && !e.Prefetches, begun: time.Now(),
				held: e.Since}
			e.Server = e.Chain.Partition.Server // the partition may be opened again meanwhile
		}
		if l.running > l.workers && l.workers < l.in.o.Workers {
			l.workers++
			l.spawn(l.work)
		}
		l.jobs <- job
	}
}

// await waits for an event or the next due time. If pause is not 0 it waits for pause instead of the due
// time, and ignores new deliveries. It applies the result of the event.
func (l *loop[TTx]) await(ctx context.Context, pause time.Duration) error {
	in := l.in
	wait, timed := in.schedule.Wake(in.o.Now())
	n, shut := l.freeSlots()
	if !l.looking && l.in.claimable() > 0 {
		if d := l.in.parked.Due(l.in.o.Now()); !timed || d < wait {
			wait, timed = d, true
		}
	}
	if (l.running > 0 || l.stuck > 0) && (!timed || overdueEvery < wait) {
		wait, timed = overdueEvery, true
	}
	if shut > 0 && (!timed || shut < wait) {
		wait, timed = shut, true
	}
	if (l.stale || l.in.parked.Changed()) && (!timed || healthEvery < wait) {
		wait, timed = healthEvery, true
	}
	if d := l.startStoreCall(); !timed || d < wait {
		wait, timed = d, true
	}
	var ready <-chan struct{}
	if in.sub != nil && !in.checkpoints.Waits() {
		ready = in.sub.Ready()
	}
	if pause > 0 {
		wait, timed, ready = pause, true, nil
	}
	if pause == 0 && n > 0 && in.pick.Startable(l.running) {
		return nil
	}
	if !timed {
		wait = time.Hour
	}
	l.timer.Reset(wait)
	defer l.timer.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-ready:
		return nil
	case <-in.probe.Told():
		return nil
	case <-l.timer.C:
		return nil
	case rs := <-l.results:
		return l.collect(ctx, rs)
	case found := <-l.looks:
		return l.applyLook(ctx, found)
	case e := <-l.storeCalls:
		l.callingStore = false
		return in.finishStoreCall(ctx, e)
	}
}

// applyLook applies the result of a claim or a count.
func (l *loop[TTx]) applyLook(ctx context.Context, found looked) error {
	if l.stale = true; found.Counted {
		l.counting = false
	} else {
		l.looking = false
	}
	if found.Syncs {
		l.callingStore = false
		if err := l.in.finishStoreCall(ctx, found.SyncCall); err != nil {
			return err
		}
	}
	return l.in.applyLook(ctx, found)
}

// collect settles rs and all results that have arrived since.
func (l *loop[TTx]) collect(ctx context.Context, rs []exec.Result) error {
	for {
		l.unassign(rs)
		if err := l.in.settle(ctx, rs); err != nil {
			return err
		}
		select {
		case rs = <-l.results:
		default:
			return nil
		}
	}
}

// unassign removes the entries of rs from assigned.
func (l *loop[TTx]) unassign(rs []exec.Result) {
	l.running--
	for _, r := range rs {
		delete(l.assigned, r.Entry)
	}
}

// drain waits until running jobs and calls have ended, or hard is done. It acknowledges finished messages.
func (l *loop[TTx]) drain(hard context.Context) error {
	ticker := time.NewTicker(logWaitsEvery)
	defer ticker.Stop()
	for late := false; (l.running > 0 || l.looking || l.counting || l.callingStore) && !late; {
		select {
		case e := <-l.storeCalls:
			l.callingStore = false
			if err := l.in.finishStoreCall(hard, e); err != nil {
				return err
			}
		case found := <-l.looks:
			if err := l.applyLook(hard, found); err != nil {
				return err
			}
		case rs := <-l.results:
			if err := l.collect(hard, rs); err != nil {
				return err
			}
		case <-ticker.C:
			l.logWaits("inbox: still stopping")
		case <-hard.Done():
			late = true
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(hard), 5*time.Second)
	defer cancel()
	if _, err := l.in.ack(ctx); err != nil {
		l.in.o.Logger.Warn("inbox: cannot acknowledge the last messages", "consumer", l.in.group, "error",
			err)
	}
	return nil
}

// logWaitsEvery is how often a stopping consumer logs the handlers that it waits for.
const logWaitsEvery = 5 * time.Second

// logWaits logs which handlers a stopping consumer waits for, and the longest wait.
func (l *loop[TTx]) logWaits(what string) {
	l.in.o.Logger.Info(what, "consumer", l.in.group, "running", l.running, "handlers", l.in.exec.Longest(5),
		"at_most", l.in.o.Timeouts.Drain)
}

// patience is how long a handler may take to return after its context has ended.
const patience = time.Second

// work does one job after the other. A goroutine per job would have to grow its stack again each time.
func (l *loop[TTx]) work() {
	w := l.in.exec.NewWorker(l.jobs)
	defer w.Close()
	ctx := w.Under(l.hard)
	for job := range l.jobs {
		for len(job) > 0 {
			var rs []exec.Result
			rs, job = w.Work(ctx, job)
			l.results <- rs
		}
	}
}

// takeBackJobs removes the jobs that no worker has started.
func (l *loop[TTx]) takeBackJobs() {
	for {
		select {
		case job := <-l.jobs:
			l.running--
			for _, e := range job {
				delete(l.assigned, e)
				if e == e.Chain.Queue[0] { // Inbox.Close releases the claims of the scheduled messages
					l.in.schedule.Add(e.Chain)
				}
			}
		default:
			return
		}
	}
}
