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
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/internal/vitals"
	"github.com/skald-go/skald/store"
)

// Step does one turn: leases, reads at most a page of each window, publishes it, waits for the broker's
// answer and saves how far the shards have come. It never waits for rows.
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
	r.pollAt = time.Time{} // who steps decides when to look
	if err := r.check(ctx); err != nil {
		r.away(&r.storeAway, err)
		return false, err
	}
	busy, err = r.turn(ctx)
	if err == nil {
		_, err = r.save(ctx, true)
	}
	if err != nil {
		r.lost()
	}
	r.away(&r.storeAway, err)
	return busy, err
}

// Close gives the shards of a Step'ed relay back. Run does it by itself.
func (r *Relay) Close(ctx context.Context) error {
	r.forget()
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

// turn takes everything on as far as it goes without waiting for the broker.
func (r *Relay) turn(ctx context.Context) (busy bool, err error) {
	for _, phase := range []func(context.Context) (bool, error){r.probe, r.lease, r.read, r.look,
		r.retryAside, r.askTopics} {
		did, err := phase(ctx)
		busy = busy || did
		switch {
		case errors.Is(err, errBroker):
			r.missed(err)
		case err != nil:
			return busy, err
		}
		if len(r.shards) > 0 && r.o.Now().After(r.expires) {
			r.forget() // we were paused: others may own the shards by now
			r.leaseAt = time.Time{}
			return true, nil
		}
	}
	return busy, nil
}

// lost makes the relay start anew from what the store has. What it knew it tells the store, once that
// answers: it may be one that went back in time.
func (r *Relay) lost() {
	if len(r.shards) > 0 {
		r.knew = r.knew[:0]
	}
	for _, l := range r.shards {
		known := l.Shard
		if l.group != nil {
			known.Cursor = store.Cursor{Base: l.group.base, Tip: l.group.tip}
		}
		r.knew = append(r.knew, known)
	}
	r.forget()
	r.leaseAt = time.Time{}
}

// Run relays until ctx is done; then it takes no more, waits for what is under way, for at most
// Options.Drain, saves and gives its shards back. Outages of database and broker are waited for. It returns
// an error only for what waiting cannot cure.
func (r *Relay) Run(ctx context.Context) error {
	hard, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	defer r.tel.Watch(r.o.Owner, r.standing, r.deaf)()
	defer telemetry.WatchBacklog(telemetry.Providers{Meter: r.o.MeterProvider}, r.o.Now, r.Backlog,
		r.first.Load, r.lag())()
	unhook := context.AfterFunc(ctx, func() { time.AfterFunc(r.o.Drain, kill) })
	defer unhook()
	defer r.hear(hard)()
	defer r.watch(hard)()
	l := &loop{r: r, done: make(chan *call, 16), told: make(chan func(), 2), hard: hard}
	r.publish, r.ask, r.ping = l.publish, l.ask, l.ping
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

// watch asks database and broker when they give no sign, until stop.
func (r *Relay) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var both sync.WaitGroup
	both.Go(func() { r.storeVitals.Watch(ctx) })
	both.Go(func() { r.brokerVitals.Watch(ctx) })
	return func() { cancel(); both.Wait() }
}

// hear has the source hear, until stop: then nothing is under way any more.
func (r *Relay) hear(ctx context.Context) (stop func()) {
	if r.hearer == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { r.hearer.Hear(ctx, r.o.Logger.With("owner", r.o.Owner)) })
	return func() {
		cancel()
		done.Wait()
	}
}

// A loop is one session of Run. Only its goroutine touches the relay.
type loop struct {
	r    *Relay
	done chan *call      // those that are answered
	told chan func()     // takes up what the broker was asked for: one question by ask, one by ping
	hard context.Context // what outlives the signal, until the drain is over
}

// publish makes a call and has the loop told when it is answered.
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

// ask has the loop told of the ids of topics. One question is under way at a time: there is room for its
// answer.
func (l *loop) ask(topics []string, take func(broker.Topics, error)) {
	go func() {
		ids, err := l.r.callTopics(l.hard, storeTimeout, topics...)
		l.told <- func() { take(ids, err) }
	}()
}

// ping has the loop told whether the broker answers, as ask does.
func (l *loop) ping(take func(error)) {
	go func() {
		_, err := l.r.callIncarnation(l.hard, l.r.o.TTL)
		l.told <- func() { take(err) }
	}()
}

// hear asks for the answer of a call that is done. Only here, where calls are made, may the broker be told
// that we know of a failure: it holds back what comes behind one until then.
func (l *loop) hear(c *call) { l.r.answered(c, c.pending.Wait(l.hard)) }

// storeTimeout bounds each turn's calls of the database and each question to the broker. A store that bounds
// its own calls, as pgstore does, is quicker.
const storeTimeout = 20 * time.Second

func (l *loop) run(ctx context.Context) error {
	for ctx.Err() == nil {
		woken := l.r.woken() // asked for before the look, so that no write falls between the two
		busy, next, err := l.turn()
		if stop := l.sort(ctx, err); stop != nil {
			return stop
		}
		l.collect()
		if busy && err == nil {
			continue
		}
		l.await(ctx, next, woken)
	}
	return nil
}

func (l *loop) turn() (busy bool, next time.Time, err error) {
	ctx, cancel := context.WithTimeout(l.hard, storeTimeout)
	defer cancel()
	if err := l.r.check(ctx); err != nil {
		return false, next, err
	}
	busy, err = l.r.turn(ctx)
	if err == nil {
		next, err = l.r.save(ctx, false)
	}
	if err == nil {
		l.maintain()
	}
	return busy, next, err
}

// calm is how long nothing may fail before an outage counts as over: some of a turn's calls may go well while
// others do not.
const calm = 3 * time.Second

// sort decides what an error of the store means: an end, or a pause and a new start.
func (l *loop) sort(ctx context.Context, err error) error {
	r := l.r
	if err == nil || ctx.Err() != nil {
		if err == nil {
			r.storeVitals.Answered()
		}
		if r.o.Now().Sub(r.failedAt) > calm {
			if r.outages = 0; r.say.Over() {
				r.o.Logger.InfoContext(ctx, "relay: the database is back", "owner", r.o.Owner)
			}
		}
		r.away(&r.storeAway, nil)
		return nil
	}
	if store.Incurable(err) {
		return fmt.Errorf("relay stops: %w", err)
	}
	r.lost()
	r.storeVitals.Suspect()
	r.failedAt = r.o.Now()
	r.outages++
	if level := vitals.Level(err); r.say.DueAs(level, r.failedAt) {
		r.o.Logger.Log(ctx, level, "relay: waiting for the database", "owner", r.o.Owner,
			"error", err)
	}
	r.away(&r.storeAway, err)
	wait := r.o.Now().Add(backoff.After(r.outages, 50*time.Millisecond, time.Second))
	r.leaseAt, r.pollAt = wait, wait
	return nil
}

// await sleeps until there is something to do.
func (l *loop) await(ctx context.Context, save time.Time, woken <-chan struct{}) {
	timer := time.NewTimer(l.r.until(save))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case c := <-l.done:
		l.hear(c)
		l.collect()
	case take := <-l.told:
		take()
	case <-woken:
		now := l.r.o.Now()
		l.r.activity, l.r.pollAt, l.r.resting = now, later(now, l.r.restUntil), false
	case <-timer.C:
	}
}

// collect takes all answers that are there.
func (l *loop) collect() {
	for {
		select {
		case c := <-l.done:
			l.hear(c)
		case take := <-l.told:
			take()
		default:
			return
		}
	}
}

// until is how long nothing needs to be done unless an answer or a write comes.
func (r *Relay) until(save time.Time) time.Duration {
	at := r.leaseAt
	sooner := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	if len(r.groups) > 0 {
		sooner(r.asideAt)
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

// woken has something when there was a write in this process; never, where the store does not know.
func (r *Relay) woken() <-chan struct{} {
	return r.db.Woken()
}

// drain waits for what is under way, saves it and gives the shards back.
func (l *loop) drain() {
	r := l.r
	for r.inFlight > 0 {
		select {
		case c := <-l.done:
			l.hear(c)
		case <-l.hard.Done():
			r.o.Logger.Warn("relay: drain is over", "owner", r.o.Owner, "unanswered", r.inFlight)
			return
		}
	}
	_, err := r.save(l.hard, true)
	r.forget()
	if err = errors.Join(err, r.leave(l.hard)); err != nil {
		r.o.Logger.Warn("relay: could not give its shards back", "owner", r.o.Owner, "error", err)
	}
}

const keepEvery = time.Minute

// maintain sees to the retention, beside everything else, if we hold the shard of the first bucket.
func (l *loop) maintain() {
	r := l.r
	now := r.o.Now()
	if r.byBucket[0] == nil || now.Before(r.keepAt) || !r.keeping.CompareAndSwap(false, true) {
		return
	}
	r.keepAt = now.Add(keepEvery)
	go func() {
		defer r.keeping.Store(false)
		for r.maintain(l.hard) {
		}
	}()
}

// maintain tells whether there is more to be deleted.
func (r *Relay) maintain(ctx context.Context) (more bool) {
	did, err := r.db.Maintain(ctx, store.Maintain{Keep: r.o.Keep})
	switch {
	case err != nil && ctx.Err() == nil: // else it was ended with the relay
		r.o.Logger.Warn("relay: retention failed", "owner", r.o.Owner, "error", err)
	case did.Rows != 0 || did.Marks != 0 || did.Steps != 0 || len(did.Left) > 0:
		r.o.Logger.Info("relay: retention", "owner", r.o.Owner, "rows", did.Rows, "marks", did.Marks,
			"steps", did.Steps, "left", did.Left)
	}
	return err == nil && did.More
}
