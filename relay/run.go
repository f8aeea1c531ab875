// This file has the loop of a relay.

package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/internal/vitals"
	"github.com/skald-go/skald/store"
)

// Step runs one turn of the relay, for tests and for programs with their own loop. It leases shards,
// publishes at most a page of each window, waits for the broker's answer, and saves the progress. busy is
// true if it did any work. Step never waits for rows.
func (r *Relay) Step(ctx context.Context) (busy bool, err error) {
	r.publish = func(c *call, msgs []skald.Message) {
		r.answered(c, r.callPublish(ctx, msgs).Wait(ctx))
	}
	r.ask = func(topics []string, take func(broker.Topics, error)) {
		take(r.callTopics(ctx, storeTimeout, topics...))
	}
	r.ping = func(take func(error)) {
		_, err := r.callIncarnation(ctx, r.o.TTL)
		take(err)
	}
	r.pollAt = time.Time{} // look now, because the caller of Step sets the times
	if err := r.check(ctx); err != nil {
		r.noteOutage(&r.storeAway, err)
		return false, err
	}
	busy, err = r.doReadyWork(ctx)
	if err == nil {
		_, err = r.save(ctx, true)
	}
	if err != nil {
		r.lost()
	}
	r.noteOutage(&r.storeAway, err)
	return busy, err
}

// Close releases the shards of a relay that you run with Step. A later Step leases shards again. Run releases
// the shards itself.
func (r *Relay) Close(ctx context.Context) error {
	r.forget()
	r.leaseAt = time.Time{}
	return r.leave(ctx)
}

func (r *Relay) check(ctx context.Context) error {
	if r.checked {
		return nil
	}
	r.begin(ctx)
	if _, err := retention.OrDefaults(r.o.Keep); err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	if err := r.db.Check(ctx, store.Relay); err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	r.checked = true
	return nil
}

// doReadyWork does all work that does not wait for answers of the broker.
func (r *Relay) doReadyWork(ctx context.Context) (busy bool, err error) {
	for _, phase := range []func(context.Context) (bool, error){r.probe, r.lease, r.read, r.look,
		r.retryDeferred, r.askTopics} {
		did, err := phase(ctx)
		busy = busy || did
		switch {
		case errors.Is(err, errBroker):
			r.noteNoAnswer(err)
		case err != nil:
			return busy, err
		}
		if len(r.shards) > 0 && r.o.Now().After(r.expires) {
			r.forget() // the lease has ended, so other relays may own the shards
			r.leaseAt = time.Time{}
			return true, nil
		}
	}
	return busy, nil
}

// lost drops the shards after an error of the store. The next lease reports them as last known, because after
// a failover the store may have older data.
func (r *Relay) lost() {
	if len(r.shards) > 0 {
		r.lastKnown = r.lastKnown[:0]
	}
	for _, s := range r.shards {
		known := s.Shard
		if s.group != nil {
			known.Cursor = store.Cursor{Base: s.group.base, Tip: s.group.tip}
		}
		r.lastKnown = append(r.lastKnown, known)
	}
	r.forget()
	r.leaseAt = time.Time{}
}

// Run publishes until ctx is done. Then it looks for rows once more, waits at most Options.Drain for answers,
// saves its progress and releases its shards. During outages of the database and the broker, Run waits. It
// returns an error only if a retry cannot help.
func (r *Relay) Run(ctx context.Context) error {
	if err := r.o.fault(); err != nil {
		return err
	}
	hard, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	defer r.tel.Watch(r.o.Owner, r.status, r.notNotified)()
	defer telemetry.WatchBacklog(telemetry.Providers{Meter: r.o.MeterProvider}, r.o.Now, r.Backlog,
		r.first.Load, r.lag())()
	unhook := context.AfterFunc(ctx, func() { time.AfterFunc(r.o.Drain, kill) })
	defer unhook()
	defer r.listen(hard)()
	defer r.watch(hard)()
	l := &loop{r: r, done: make(chan *call, 16), results: make(chan func(), 2), hard: hard}
	r.publish, r.ask, r.ping = l.publish, l.ask, l.ping
	defer shortlog.LogPanic(ctx, r.o.Logger, "relay "+r.o.Owner)
	err := l.run(ctx)
	stopping := r.o.Now()
	if err == nil {
		r.o.Logger.InfoContext(ctx, "relay: stopping", "owner", r.o.Owner, "unanswered", r.inFlight,
			"at_most", r.o.Drain)
		l.drain()
	}
	why := "stopped"
	if err != nil {
		why = err.Error()
	}
	r.count(func(h *Health) { h.Live, h.Why, h.Shards = false, why, 0 })
	r.o.Logger.InfoContext(ctx, "relay: stopped", "owner", r.o.Owner, "took",
		r.o.Now().Sub(stopping).Round(time.Millisecond))
	return err
}

// watch probes the database and the broker after a request without an answer, until the caller calls stop.
func (r *Relay) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var both sync.WaitGroup
	both.Go(func() { r.storeVitals.Watch(ctx) })
	both.Go(func() { r.brokerVitals.Watch(ctx) })
	return func() { cancel(); both.Wait() }
}

// listen starts to receive notifications from the source. The function stop ends this, and waits until it
// has ended.
func (r *Relay) listen(ctx context.Context) (stop func()) {
	if r.listener == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		defer shortlog.LogPanic(ctx, r.o.Logger, "relay "+r.o.Owner)
		r.listener.Listen(ctx, r.o.Logger.With("owner", r.o.Owner))
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// loop is one call of Run. Only its goroutine uses the relay.
type loop struct {
	r       *Relay
	done    chan *call      // answered calls
	results chan func()     // results of ask and ping, at most one of each
	hard    context.Context // ends when the drain is over
}

// publish starts a call, and sends it to done when the broker has answered.
func (l *loop) publish(c *call, msgs []skald.Message) {
	c.pending = l.r.callPublish(l.hard, msgs)
	go func() {
		select {
		case <-c.pending.Done():
			select {
			case l.done <- c:
			case <-l.hard.Done():
			}
		case <-l.hard.Done():
		}
	}()
}

// ask reads the IDs of topics, and sends the result to results. The channel has room, because at most one
// such request is in progress.
func (l *loop) ask(topics []string, take func(broker.Topics, error)) {
	go func() {
		ids, err := l.r.callTopics(l.hard, storeTimeout, topics...)
		l.results <- func() { take(ids, err) }
	}()
}

// ping sends a probe to the broker, and the result to results, as ask does.
func (l *loop) ping(take func(error)) {
	go func() {
		_, err := l.r.callIncarnation(l.hard, l.r.o.TTL)
		l.results <- func() { take(err) }
	}()
}

// settle processes the answer of a call. It must run in the goroutine that publishes, because the driver
// holds back later rows until Wait has returned.
func (l *loop) settle(c *call) { l.r.answered(c, c.pending.Wait(l.hard)) }

// storeTimeout limits the store calls of a turn, and each request to the broker. A store with a shorter
// timeout, such as pgstore, fails earlier.
const storeTimeout = 20 * time.Second

func (l *loop) run(ctx context.Context) error {
	for ctx.Err() == nil {
		woken := l.r.woken() // before the look, so that a write during the look is not missed
		busy, next, err := l.turn()
		if stop := l.handleStoreError(ctx, err); stop != nil {
			return stop
		}
		l.collect()
		if busy && err == nil {
			continue
		}
		l.await(ctx, next, woken)
	}
	l.publishLast()
	return nil
}

// publishLast publishes the rows that this process wrote before it stops. It publishes at most a few pages.
// Other relays, or the next process, publish the rest of a backlog.
func (l *loop) publishLast() {
	if len(l.r.shards) == 0 || l.r.outages > 0 {
		return
	}
	l.r.pollAt = time.Time{}
	for range lastTurns {
		busy, _, err := l.turn()
		l.collect()
		if !busy || err != nil || l.hard.Err() != nil {
			return
		}
	}
}

func (l *loop) turn() (busy bool, next time.Time, err error) {
	ctx, cancel := context.WithTimeout(l.hard, storeTimeout)
	defer cancel()
	if err := l.r.check(ctx); err != nil {
		return false, next, err
	}
	busy, err = l.r.doReadyWork(ctx)
	if err == nil {
		next, err = l.r.save(ctx, false)
	}
	if err == nil {
		l.maintain()
	}
	return busy, next, err
}

// recoveredAfter is the time without a failure after which an outage of the store is over. A single
// successful call does not end it, because other calls may still fail.
const recoveredAfter = 3 * time.Second

// handleStoreError handles the result of a turn. It returns err if a retry cannot help. After other errors it
// schedules a retry, and returns nil.
func (l *loop) handleStoreError(ctx context.Context, err error) error {
	r := l.r
	if err == nil || ctx.Err() != nil {
		if err == nil {
			r.storeVitals.Answered()
		}
		if r.o.Now().Sub(r.failedAt) > recoveredAfter {
			if r.outages = 0; r.storeLog.Over() {
				r.o.Logger.InfoContext(ctx, "relay: the database is back", "owner", r.o.Owner)
			}
		}
		r.noteOutage(&r.storeAway, nil)
		return nil
	}
	if store.Incurable(err) {
		return fmt.Errorf("relay stops: %w", err)
	}
	r.lost()
	r.storeVitals.Suspect()
	r.failedAt = r.o.Now()
	r.outages++
	if level := vitals.Level(err); r.storeLog.DueAs(level, r.failedAt) {
		r.o.Logger.Log(ctx, level, "relay: waiting for the database", "owner", r.o.Owner,
			"error", err)
	}
	r.noteOutage(&r.storeAway, err)
	wait := r.o.Now().Add(backoff.After(r.outages, 50*time.Millisecond, time.Second))
	r.leaseAt, r.pollAt = wait, wait
	return nil
}

// await sleeps until there is work.
func (l *loop) await(ctx context.Context, save time.Time, woken <-chan struct{}) {
	timer := time.NewTimer(l.r.untilNextWork(save))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case c := <-l.done:
		l.settle(c)
		l.collect()
	case take := <-l.results:
		take()
	case <-woken:
		now := l.r.o.Now()
		l.r.activity, l.r.pollAt, l.r.resting = now, later(now, l.r.restUntil), false
	case <-timer.C:
	}
}

// collect handles all answers that have arrived.
func (l *loop) collect() {
	for {
		select {
		case c := <-l.done:
			l.settle(c)
		case take := <-l.results:
			take()
		default:
			return
		}
	}
}

// untilNextWork returns the time until the next scheduled work.
func (r *Relay) untilNextWork(save time.Time) time.Duration {
	at := r.leaseAt
	sooner := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	if len(r.groups) > 0 {
		sooner(r.deferredAt)
	}
	if !save.IsZero() {
		sooner(save)
	}
	for _, g := range r.groups {
		switch {
		case !g.open():
			sooner(later(r.pollAt, g.due))
		case r.room(g):
			sooner(g.due)
		}
	}
	return max(0, at.Sub(r.o.Now()))
}

// woken returns a channel that is closed after a write in this process. It returns nil if the store does not
// notify.
func (r *Relay) woken() <-chan struct{} {
	return r.db.Woken()
}

// drain waits for answers, saves the progress and releases the shards.
func (l *loop) drain() {
	r := l.r
	for r.inFlight > 0 {
		select {
		case c := <-l.done:
			l.settle(c)
		case <-l.hard.Done():
			r.o.Logger.Warn("relay: the drain time is over", "owner", r.o.Owner, "unanswered", r.inFlight)
			return
		}
	}
	_, err := r.save(l.hard, true)
	r.forget()
	if err = errors.Join(err, r.leave(l.hard)); err != nil {
		r.o.Logger.Warn("relay: could not release its shards", "owner", r.o.Owner, "error", err)
	}
}

// lastTurns limits the turns of publishLast. The first turn looks for rows, and the others read them.
const lastTurns = 4

const maintainEvery = time.Minute

// maintain applies the retention in the background, if this relay owns the shard of the first bucket.
func (l *loop) maintain() {
	r := l.r
	now := r.o.Now()
	if r.byBucket[0] == nil || now.Before(r.maintainAt) || !r.maintaining.CompareAndSwap(false, true) {
		return
	}
	r.maintainAt = now.Add(maintainEvery)
	go func() {
		defer r.maintaining.Store(false)
		for r.maintain(l.hard) {
		}
	}()
}

// maintain applies the retention once. more is true if there are more rows to delete.
func (r *Relay) maintain(ctx context.Context) (more bool) {
	did, err := r.db.Maintain(ctx, store.Maintain{Keep: r.o.Keep})
	switch {
	case err != nil && ctx.Err() == nil: // not cancelled by the end of the relay
		r.o.Logger.Warn("relay: retention failed", "owner", r.o.Owner, "error", err)
	case did.Rows != 0 || did.Marks != 0 || did.Steps != 0 || len(did.Left) > 0:
		r.o.Logger.Info("relay: retention", "owner", r.o.Owner, "rows", did.Rows, "marks", did.Marks,
			"steps", did.Steps, "left", did.Left)
	}
	return err == nil && did.More
}
