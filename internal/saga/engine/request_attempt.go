// This file sends the requests of steps to other systems, and converts their answers. Each request has its
// own goroutine.

package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// answerTime is the time that the lease must have in addition to a request's timeout, for sending the request
// and storing the answer.
const answerTime = 10 * time.Second

// requestFor returns the request of a step's action, or false if the action is no request.
func requestFor[TTx any](step *StepBody, a plan.Action) (Request[TTx], bool) {
	tx, ok := OutsideOf[TTx](step.Tx)
	switch {
	case !ok || a.Verb == plan.DecideStep:
		return Request[TTx]{}, false
	case a.Verb != plan.UndoStep:
		return tx.Call, true
	case tx.Undo != nil:
		return *tx.Undo, true
	}
	return Request[TTx]{}, false
}

// answer is the result of one attempt at a request.
type answer struct {
	Action  plan.Action
	Call    store.Call
	Known   bool          // Call.Outcome is the answer
	Later   time.Duration // wait before the next attempt, or 0
	Err     error
	Nothing bool // the attempt has no effect on the saga
}

// ask is a request that another goroutine sends.
type ask[TTx any] struct {
	Action plan.Action
	Bound  call.Bound[TTx]
	Memo   json.RawMessage // the stored call
	Begun  bool            // the request may have been sent before
	Lease  call.Lease
	Now    time.Time // by the database's clock
	Guard  func(func() error) error
}

// Make sends the request once.
func (q *ask[TTx]) Make(ctx context.Context) (out answer) {
	var c store.Call
	if err := json.Unmarshal(q.Memo, &c); err != nil {
		return answer{Action: q.Action, Err: skald.Permanent(fmt.Errorf("the stored call of the step %s: %w",
			q.Action.Step, err))}
	}
	c.Undo, c.Age = q.Action.Verb == plan.SettleStep, q.Now.Sub(c.Since)
	failed := q.Guard(func() error {
		out = call.Make(ctx, q.Bound, &owner{q.Action, q.Lease}, c, q.Begun)
		return nil
	})
	if failed != nil {
		out = answer{Action: q.Action, Call: c, Err: failed}
	}
	out.Err = failure.Legible(out.Err)
	return out
}

// owner converts the result of an attempt to an answer, which the saga's goroutine stores. It implements the
// owner of call.Make.
type owner struct {
	a     plan.Action
	lease call.Lease
}

func (o *owner) Lease() call.Lease { return o.lease }

func (o *owner) Sending(ctx context.Context, _ time.Duration) (context.Context, func()) {
	return ctx, func() {}
}

// GivesUp returns false, because the request has its own goroutine and is sent once.
func (o *owner) GivesUp() bool { return false }

func (o *owner) Answered(_ context.Context, c store.Call) answer {
	return answer{Action: o.a, Call: c, Known: true}
}

func (o *owner) Later(_ context.Context, after time.Duration, err error) answer {
	return answer{Action: o.a, Later: max(after, leastWait), Err: err}
}

func (o *owner) Failed(ctx context.Context, err error) answer {
	return answer{Action: o.a, Err: err, Nothing: ctx.Err() != nil}
}

func (o *owner) Late() answer { return answer{Action: o.a, Nothing: true} }
