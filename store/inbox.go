package store

import (
	"context"
	"time"
)

// An Inbox is the part of a Driver that takes messages in and lends a handler its transaction.
type Inbox[TTx any] interface {
	Taker

	// Begin opens a transaction and takes in. The caller ends the Unit once, by Commit or Rollback; where
	// Begin fails nothing is left open. ErrBusy: a rival held a mark or a lock for longer than in.Wait.
	Begin(ctx context.Context, in Intake) (Unit[TTx], error)

	// Enter takes in within tx, a transaction of the caller's own: marks and locks, with the caller's own
	// bounds on waiting. An Answer to such a mark goes by Write.
	Enter(ctx context.Context, tx TTx, in Intake) (Found, error)
}

// A Taker is the part of an Inbox that needs no transaction of a handler's.
type Taker interface {
	// Seen looks up which messages a consumer has finished. It locks nothing: Fresh is a guess, the rest is
	// not.
	Seen(ctx context.Context, consumer string, ids []Identity) ([]Verdict, error)

	// Claim takes due work of one kind for a session, and puts its due time off by Want.Lease, so that nobody
	// else claims it meanwhile. At most PageBytes are read, but one message at least.
	//
	// Parked messages are claimed if they are due and first of their key; to be taken they are Retrying in an
	// intake. What is read along is not claimed: see ClaimSize.
	Claim(ctx context.Context, w Want) (Claimed, error)

	// Reserve takes a key for work outside of a transaction: one round trip, one commit. Of those who ask at
	// once one gets it. It is free again when an effect with its Reservation stands, or when the lease ends,
	// by the store's clock.
	Reserve(ctx context.Context, r Reservation) (Reserved, error)

	// Attend reads how far a consumer has come, and writes what its process knows: a twin of Lease. One round
	// trip, one transaction.
	Attend(ctx context.Context, a Attend) (Attended, error)
}

// A Work is a kind of due work.
type Work int8

// Kinds of due work. A store refuses those that it does not know.
const Parkeds Work = 0 // messages that were parked

// A Want says which due work a session takes.
type Want struct {
	Consumer, Session string
	Work              Work
	ClaimSize
	Lease time.Duration // from now; 0: it is due again at once
	// Not are types of messages that are left to others; Claimed.Next does not tell of them.
	Not []Kind
	// Attend asks for Claimed.Attended, too.
	Attend bool
}

// A Unit is a transaction of ours, lent to a handler.
type Unit[TTx any] interface {
	// Tx is the transaction. Its own Commit and Rollback answer ErrLent; a driver that cannot stop them
	// (*sql.Tx) finds out in Commit, which then fails with ErrLent.
	Tx() TTx
	// Found answers the Intake, index by index.
	Found() Found
	// Outage tells of a handler's error, before Commit or Rollback, whether this transaction itself failed by
	// what is nobody's fault: its connection was lost, or it was aborted by a deadlock, a serialization
	// failure, a lock that was not to be had, a context of the handler's own that ended in a statement. The
	// state of the transaction decides first, then err says why it was aborted. An error of any other
	// connection is none, whatever it is.
	Outage(ctx context.Context, err error) bool
	// Commit writes what was kept, then es, then commits: all of it or, if any guard is lost (ErrLost) or the
	// transaction was already aborted, none. Another error may hide a commit that took effect: the marks
	// tell. After Commit, whatever it returned, the Unit is ended.
	Commit(ctx context.Context, es ...Effect) error
	// CommitThen is Commit and, where that succeeded, Begin of next on the same connection and in the same
	// round trip. The commit stands whatever becomes of next, and does not wait for it. Nil: nothing was
	// begun, as always where a driver cannot; use Begin.
	CommitThen(ctx context.Context, next Intake, es ...Effect) (Unit[TTx], error)
	// Rollback undoes everything and then does Apply(instead...). It ends the Unit. Without instead its
	// error only says that the connection was lost: the rows are undone in any case.
	Rollback(ctx context.Context, instead ...Effect) ([]bool, error)
}
