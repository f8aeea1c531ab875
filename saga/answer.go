package saga

import (
	"context"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/plan"
)

// What a cancellation came to; it may also be Taken or Again.
const (
	// TooLate: the pivot is passed, or the saga is done.
	TooLate Received = "too late"
	// Unbegun: the saga had done nothing that has an undo, and ends with that. No undo is called: what the
	// transaction of Start wrote is left to the caller.
	Unbegun Received = "unbegun"
)

// Cancel turns a saga back, in a transaction of the caller's. What is under way outside is settled first;
// where that is the pivot and it took effect, the saga goes on. *NoSagaError: there is none of this key.
func Cancel[TTx any](ctx context.Context, e *Engine[TTx], tx TTx, d Defined, key,
	reason string) (Received, error) {
	out, nothing, err := e.core.Cancel(ctx, tx, d.Body(), key, reason)
	switch {
	case err != nil:
		return "", err
	case nothing:
		return Unbegun, nil
	}
	return Received(out), nil
}

// Answer takes a message as a reply to a saga, in the transaction of a handler of the caller's. It is for
// those who do something of their own with a reply, or whose participants know of no sagas: the saga is
// found by its business key, and where the message does not name the command that it answers as its
// cause, it answers the one that waits for such a message. False: it counted for nothing, because it came
// again, late, or unasked.
func Answer[TTx any](ctx context.Context, e *Engine[TTx], tx TTx, d Defined, key string,
	m skald.Message) (bool, error) {
	out, err := e.core.Answer(ctx, tx, d.Body(), key, m)
	return out == plan.Taken, err
}
