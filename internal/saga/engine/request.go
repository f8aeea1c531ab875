package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/saga/body"
	"github.com/skald-go/skald/internal/saga/engine/internal/attempt"
	"github.com/skald-go/skald/internal/saga/engine/internal/fault"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/saga/stored"
	"github.com/skald-go/skald/store"
)

// answerTime is how long it may take to get round to a request, and to store its answer.
const answerTime = 10 * time.Second

// outside is the call that an action is about; false: it is about none.
func (l *live[TTx]) outside(a plan.Action) (body.Request[TTx], bool) {
	step, _ := l.d.Step(a.Step)
	tx, ok := step.Tx.(*body.Outside[TTx])
	switch {
	case !ok || a.Verb == plan.DecideStep:
		return body.Request[TTx]{}, false
	case a.Verb != plan.UndoStep:
		return tx.Call, true
	case tx.Undo != nil:
		return *tx.Undo, true
	}
	return body.Request[TTx]{}, false
}

// asks tells whether a is a request that is stored, and to be made.
func (l *live[TTx]) asks(a plan.Action) bool {
	_, is := l.outside(a)
	return is && a.Sent
}

func (l *live[TTx]) bind(r body.Request[TTx]) call.Bound[TTx] {
	return r.Bind(call.By{Name: l.d.Name, Retry: time.Second, Now: l.e.o.Now, Logger: l.e.o.Logger})
}

// intend stores what is to be requested, instead of what was written in the transaction that it was read in.
func (l *live[TTx]) intend(ctx context.Context, a plan.Action, r body.Request[TTx]) error {
	defer l.free()
	u, err := l.begin(ctx, usualTimeout+mercy)
	if err != nil {
		return err
	}
	bound, f := l.bind(r), l.facts(a)
	within, cancel := context.WithTimeoutCause(l.caused(ctx), usualTimeout, errSlow)
	defer cancel()
	var c *store.Call
	err = l.timed(ctx, a, usualTimeout, func() (err error) {
		if c, err = bound.Intend(body.With(within, f), u.Tx(), skald.Message{}); err == nil && c == nil {
			err = skald.Permanent(errors.New("its Intent requests nothing"))
		}
		return err
	})
	if err != nil {
		return l.failedIn(within, u, a, err)
	}
	c.Since = l.e.clock.Now()
	memo, err := json.Marshal(c)
	if err != nil {
		return l.failedIn(within, u, a, skald.Permanent(fmt.Errorf("encode the call: %w", err)))
	}
	e := plan.Event{What: plan.Sent, Step: a.Step, Occurrence: a.Occurrence, Memo: memo}
	if a.Verb == plan.UndoStep {
		e.What = plan.UndoSent
	}
	if err := l.feedData(e); err != nil {
		return l.failedIn(within, u, a, err)
	}
	l.think(ctx)
	if err := l.insteadOf(ctx, u, bound.Timeout()+answerTime); err != nil {
		return l.blame(ctx, a, err)
	}
	l.sent[requestOf(a)] = true
	return nil
}

func requestOf(a plan.Action) string { return fmt.Sprint(a.Verb, stored.Name(a.Step, a.Occurrence)) }

// An answer is what one attempt at a request came to.
type answer struct {
	a       plan.Action
	c       store.Call
	known   bool // c has the outcome
	later   time.Duration
	err     error
	nothing bool // as if it had not been tried
}

// request makes requests side by side, and stores what they came to as it comes.
func (l *live[TTx]) request(ctx context.Context, asks []plan.Action) error {
	need := time.Duration(0)
	for _, a := range asks {
		r, _ := l.outside(a)
		need = max(need, l.bind(r).Timeout()+answerTime)
	}
	l.e.gate.Expect(&l.seat, need)
	if l.dirty || l.left() < need {
		m, err := l.move(need)
		if err == nil {
			err = l.put(ctx, m)
		}
		if err != nil || l.over {
			return l.blamed(ctx, err)
		}
	}
	l.rollback(ctx)
	answers := make(chan answer, len(asks))
	for _, a := range asks {
		ask := l.asking(a)
		go func() { answers <- ask(ctx) }()
	}
	var first error
	for range asks {
		if err := l.answered(ctx, <-answers); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// asking is a request to be made by another goroutine: it has all that it needs of l.
func (l *live[TTx]) asking(a plan.Action) func(ctx context.Context) answer {
	r, _ := l.outside(a)
	bound := l.bind(r)
	begun := a.Attempt > 1 || a.Verb == plan.SettleStep || !l.sent[requestOf(a)]
	delete(l.sent, requestOf(a))
	run, _ := l.state.Run(a.Step, a.Occurrence)
	lease := call.Lease{Since: l.since, For: l.lease - answerTime/2}
	guard, with := l.guard, l.caused
	var c store.Call
	err := json.Unmarshal(run.Memo, &c)
	c.Undo = a.Verb == plan.SettleStep
	c.Age = l.e.clock.Now().Sub(c.Since)
	return func(ctx context.Context) (out answer) {
		if err != nil {
			return answer{a: a, err: skald.Permanent(fmt.Errorf("the stored call of the step %s: %w",
				a.Step, err))}
		}
		failed := guard(func() error {
			out = call.Make(with(ctx), bound, &owner{a: a, lease: lease}, c, begun)
			return nil
		})
		if failed != nil {
			out = answer{a: a, c: c, err: failed}
		}
		out.err = attempt.Legible(out.err)
		return out
	}
}

// An owner notes what an attempt came to. It is stored by the goroutine that has the saga.
type owner struct {
	a     plan.Action
	lease call.Lease
}

func (o *owner) Lease() call.Lease { return o.lease }

func (o *owner) Sending(ctx context.Context, _ time.Duration) (context.Context, func()) {
	return ctx, func() {}
}

func (o *owner) Answered(_ context.Context, c store.Call) answer {
	return answer{a: o.a, c: c, known: true}
}

func (o *owner) Later(_ context.Context, after time.Duration, err error) answer {
	return answer{a: o.a, later: max(after, attempt.LeastWait), err: err}
}

func (o *owner) Failed(ctx context.Context, err error) answer {
	return answer{a: o.a, err: err, nothing: ctx.Err() != nil}
}

func (o *owner) Late() answer { return answer{a: o.a, nothing: true} }

// answered stores what a request came to, whoever has written the saga meanwhile: its outcome is known and
// not to be asked for again.
func (l *live[TTx]) answered(ctx context.Context, is answer) error {
	if is.nothing {
		return fault.ErrMoved
	}
	for n := 1; ; n++ {
		err := l.blamed(ctx, l.note(ctx, is))
		var no *fault.Refusal
		if errors.As(err, &no) {
			return l.answerRefused(ctx, is, no)
		}
		if err == nil || n == 10 || ctx.Err() != nil {
			return err
		}
		if !errors.Is(err, fault.ErrMoved) {
			l.complain(ctx, err)
			if !l.rest(ctx, backoff.After(n, 20*time.Millisecond, time.Second)) {
				return err
			}
		}
		if !l.again(ctx) {
			return fault.ErrMoved
		}
		if no := l.lostAlone.Own(err, l.saga.Version); no != nil {
			return l.answerRefused(ctx, is, no)
		}
	}
}

// again reads the saga anew, whoever has it.
func (l *live[TTx]) again(ctx context.Context) bool {
	s, there, err := l.e.find(ctx, l.saga.Name, l.saga.Key)
	return err == nil && there && s.ID == l.saga.ID && s.Ended.IsZero() && s.Hash == l.d.Hash &&
		l.read(s, plan.Graph{}) == nil
}

func (l *live[TTx]) note(ctx context.Context, is answer) error {
	run, _ := l.state.Run(is.a.Step, is.a.Occurrence)
	if !run.Sent || run.Sends != is.a.Sends {
		return nil // it was settled otherwise
	}
	a := is.a
	if l.state.Status == plan.Compensating && a.Verb == plan.RunStep {
		a.Verb = plan.SettleStep
	}
	if !is.known {
		e := attempt.Failed(a, is.err)
		if is.later > 0 {
			e.Later = is.later
		}
		l.feed(e)
		l.think(ctx)
		return l.write(ctx, 0)
	}
	r, _ := l.outside(a)
	output, refused, why, err := r.Read(is.c.Outcome)
	if err != nil {
		l.wrong(a, skald.Permanent(err))
		return l.write(ctx, 0)
	}
	e := plan.Event{What: plan.Succeeded, Step: a.Step, Occurrence: a.Occurrence, Output: output}
	switch {
	case a.Verb == plan.UndoStep && refused:
		e.What, e.Permanent, e.Reason = plan.UndoFailed, true, why
	case a.Verb == plan.UndoStep:
		e.What = plan.UndoDone
	case refused:
		e.What, e.Reason = plan.Rejected, why
	default:
		if err := body.Fits("the output of the step "+a.Step, output, l.d.MaxBytes); err != nil {
			e = attempt.Without(e, err)
		}
	}
	return l.settle(ctx, a, is.c, bound[TTx]{l.bind(r)}, e, refused)
}

type bound[TTx any] struct{ call.Bound[TTx] }

// settle stores an answer together with what the user writes because of it.
func (l *live[TTx]) settle(ctx context.Context, a plan.Action, c store.Call, b bound[TTx], e plan.Event,
	refused bool) error {
	defer l.free()
	u, err := l.begin(ctx, usualTimeout+mercy)
	if err != nil {
		return err
	}
	f := l.facts(a)
	within, cancel := context.WithTimeoutCause(l.caused(ctx), usualTimeout, errSlow)
	defer cancel()
	err = l.timed(ctx, a, usualTimeout,
		func() error { return b.Settle(body.With(within, f), u.Tx(), skald.Message{}, c.Outcome) })
	var no *skald.RejectedError
	switch {
	case err == nil:
		l.feedEffect(e)
		return l.commit(ctx, u, a)
	case errors.As(err, &no) && (refused || a.Verb != plan.UndoStep):
		if !refused {
			e.Reason = no.Error() // done, and rejected after that
		}
		l.feedEffect(e)
		l.think(ctx)
		return l.blame(ctx, a, l.insteadOf(ctx, u, 0))
	}
	l.feed(noted(a, c)) // it is not to be asked again, unless the answer is too large to be kept
	return l.failedIn(within, u, a, err)
}

// noted is the event of a call whose answer is known.
func noted(a plan.Action, c store.Call) plan.Event {
	c.Age = 0
	memo, _ := json.Marshal(c)
	e := plan.Event{What: plan.Sent, Step: a.Step, Occurrence: a.Occurrence, Memo: memo}
	if a.Verb == plan.UndoStep {
		e.What = plan.UndoSent
	}
	return e
}
