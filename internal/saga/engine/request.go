package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// outside returns the request of an action, or false if the action is no request.
func (l *live[TTx]) outside(a plan.Action) (Request[TTx], bool) {
	step, _ := l.Def.Step(a.Step)
	return requestFor[TTx](step, a)
}

// isReadyRequest reports whether the action a is a stored request that is ready to be sent.
func (l *live[TTx]) isReadyRequest(a plan.Action) bool {
	_, is := l.outside(a)
	return is && a.Sent
}

func (l *live[TTx]) bind(r Request[TTx]) call.Bound[TTx] {
	return r.Bind(call.By{Name: l.Def.Name, Retry: time.Second, Now: l.e.o.Now, Logger: l.e.o.Logger})
}

// intend runs the user's Intend in a transaction. It rolls back the writes of Intend, and stores the request
// instead.
func (l *live[TTx]) intend(ctx context.Context, a plan.Action, r Request[TTx]) error {
	defer l.releaseWorker()
	u, err := l.begin(ctx, usualTimeout+graceTime)
	if err != nil {
		return err
	}
	bound, f := l.bind(r), l.Facts(a)
	within, cancel := context.WithTimeoutCause(l.Caused(ctx), usualTimeout, errSlow)
	defer cancel()
	var c *store.Call
	err = l.timed(ctx, u, a, usualTimeout, func() (err error) {
		if c, err = bound.Intend(WithFacts(within, f), u.Tx(), skald.Message{}); err == nil && c == nil {
			err = skald.Permanent(errors.New("its Intent requests nothing"))
		}
		return err
	})
	if err != nil {
		return l.failedIn(within, u, a, err)
	}
	c.Since = l.e.clock.Now()
	e, err := callEvent(a, *c)
	if err != nil {
		return l.failedIn(within, u, a, skald.Permanent(fmt.Errorf("encode the call: %w", err)))
	}
	if err := l.FeedData(e); err != nil {
		return l.failedIn(within, u, a, err)
	}
	l.Prepare(ctx)
	if err := l.storeInstead(ctx, u, bound.Timeout()+answerTime); err != nil {
		return l.blame(ctx, a, err)
	}
	l.sent[requestOf(a)] = true
	return nil
}

func requestOf(a plan.Action) string {
	return fmt.Sprint(a.Verb, sagarow.StepName(a.Step, a.Occurrence))
}

// request sends requests in parallel, and stores each answer when it arrives.
func (l *live[TTx]) request(ctx context.Context, asks []plan.Action) error {
	need := time.Duration(0)
	for _, a := range asks {
		r, _ := l.outside(a)
		need = max(need, l.bind(r).Timeout()+answerTime)
	}
	l.e.gate.Expect(&l.gateState, need)
	if l.Dirty() || l.leaseLeft() < need {
		m, err := l.move(need)
		if err == nil {
			err = l.put(ctx, m)
		}
		if err != nil || l.over {
			return l.blamePrepared(ctx, err)
		}
	}
	l.rollback(ctx)
	answers := make(chan answer, len(asks))
	for _, a := range asks {
		ask, within := l.asking(a), l.Caused(ctx)
		over := l.requesting(ctx, a, ask.Bound.Timeout())
		go func() {
			is := ask.Make(within)
			over()
			answers <- is
		}()
	}
	var first error
	for range asks {
		if err := l.answered(ctx, <-answers); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// requesting records that a request is in progress in this process until the caller calls finish. If this
// process claims the saga again meanwhile, it does not send the request again.
func (l *live[TTx]) requesting(ctx context.Context, a plan.Action, timeout time.Duration) (finish func()) {
	f, name, key := &hangingFunction{Key: hangsOf(l.Row.ID, a)}, l.Row.Name, l.Row.Key
	l.e.hanging.Hangs(f, func() {})
	late := time.AfterFunc(timeout+graceTime, func() {
		l.e.o.Logger.ErrorContext(ctx,
			"saga: a request does not return, so it ignores its context: it counts towards its provider's "+
				"limit until it returns, or this process ends; another process may make it again",
			"saga", name, "key", key, "step", a.Step, "occurrence", a.Occurrence, "timeout", timeout)
	})
	return func() {
		late.Stop()
		l.e.hanging.Returned(f)
	}
}

// asking returns a request that another goroutine can send.
func (l *live[TTx]) asking(a plan.Action) *ask[TTx] {
	r, _ := l.outside(a)
	run, _ := l.State.Run(a.Step, a.Occurrence)
	begun := a.Attempt > 1 || a.Verb == plan.SettleStep || !l.sent[requestOf(a)]
	delete(l.sent, requestOf(a))
	return &ask[TTx]{Action: a, Bound: l.bind(r), Memo: run.Memo, Begun: begun,
		Lease: call.Lease{Since: l.since, For: l.lease - answerTime/2}, Now: l.e.clock.Now(),
		Guard: l.Guard}
}

// answered stores the result of a request, even if another process wrote the saga in the meantime. So the
// engine does not send a request with a known outcome again.
func (l *live[TTx]) answered(ctx context.Context, result answer) error {
	if result.Nothing {
		return errMoved
	}
	for n := 1; ; n++ {
		err := l.blamePrepared(ctx, l.note(ctx, result))
		var no *refusal
		if errors.As(err, &no) {
			return l.answerRefused(ctx, result, no)
		}
		if err == nil || n == 10 || ctx.Err() != nil || errors.Is(err, errCrowded) {
			return err
		}
		if !errors.Is(err, errMoved) {
			l.outages++
			l.logUnstored(ctx, err)
			if !l.sleep(ctx, backoff.After(n, 20*time.Millisecond, time.Second)) {
				return err
			}
		}
		if !l.readAgain(ctx) {
			return errMoved
		}
		if no := l.lostAlone.Own(err, l.Row.Version); no != nil {
			return l.answerRefused(ctx, result, no)
		}
	}
}

// readAgain reads the saga again, regardless of its lease. It returns false if the saga cannot accept the
// answer any more.
func (l *live[TTx]) readAgain(ctx context.Context) bool {
	s, there, err := l.e.find(ctx, l.Row.Name, l.Row.Key)
	return err == nil && there && s.ID == l.Row.ID && s.Ended.IsZero() && s.Hash == l.Def.Hash &&
		l.read(s, plan.Graph{}) == nil
}

func (l *live[TTx]) note(ctx context.Context, is answer) error {
	a := is.Action
	run, _ := l.State.Run(a.Step, a.Occurrence)
	if !run.Sent || run.Sends != a.Sends {
		return nil // the outcome of the request was stored by other means
	}
	if l.State.Status == plan.Compensating && a.Verb == plan.RunStep {
		a.Verb = plan.SettleStep
	}
	if !is.Known {
		is.Action = a
		l.Feed(is.Unknown())
		l.Prepare(ctx)
		return l.write(ctx, 0)
	}
	r, _ := l.outside(a)
	e, refused, err := event(r, a, is.Call, l.Def.MaxBytes)
	if err != nil {
		l.ApplyError(a, skald.Permanent(err))
		return l.write(ctx, 0)
	}
	return l.settle(ctx, a, is.Call, l.bind(r), e, refused)
}

// settle stores an answer together with the writes of the user's Settle.
func (l *live[TTx]) settle(ctx context.Context, a plan.Action, c store.Call, b call.Bound[TTx], e plan.Event,
	refused bool) error {
	defer l.releaseWorker()
	if !l.slotAtOnce() { // store the answer before the wait, or the request may be sent again
		l.Feed(answerEvent(a, c))
		if err := l.write(ctx, 0); err != nil {
			return err
		}
	}
	u, err := l.begin(ctx, usualTimeout+graceTime)
	if err != nil {
		return err
	}
	f := l.Facts(a)
	within, cancel := context.WithTimeoutCause(l.Caused(ctx), usualTimeout, errSlow)
	defer cancel()
	err = l.timed(ctx, u, a, usualTimeout,
		func() error { return b.Settle(WithFacts(within, f), u.Tx(), skald.Message{}, c.Outcome) })
	var no *skald.RejectedError
	if err == nil {
		l.FeedEffect(e)
		return l.commit(ctx, u, a)
	}
	rows, bad := l.rejection(err)
	switch {
	case bad != nil:
		err = bad
	case errors.As(err, &no) && (refused || a.Verb != plan.UndoStep):
		if !refused {
			e.Reason = no.Error() // the request was done, and Settle rejected the answer
		}
		l.FeedEffect(e)
		l.rows = append(l.rows, rows...)
		l.Prepare(ctx)
		return l.blame(ctx, a, l.storeInstead(ctx, u, 0))
	}
	l.Feed(answerEvent(a, c)) // so that the request is not sent again; fails only if the answer is too large
	return l.failedIn(within, u, a, err)
}
