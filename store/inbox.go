package store

import (
	"context"
	"time"
)

// Inbox is the part of a Driver that records messages and opens the transaction of a handler.
type Inbox[TTx any] interface {
	Taker

	// Begin opens a transaction and applies in to it. The caller ends the Unit once, by Commit or Rollback.
	// If Begin fails, no transaction stays open. It returns ErrBusy if a concurrent transaction holds a mark
	// or a lock for longer than in.Wait.
	Begin(ctx context.Context, in Intake) (Unit[TTx], error)

	// Enter applies the marks and locks of in within tx, a transaction of the caller. The caller's own
	// timeouts apply. Write stores an Answer to such a mark.
	Enter(ctx context.Context, tx TTx, in Intake) (Found, error)
}

// Taker is the part of an Inbox that needs no transaction of a handler.
type Taker interface {
	// Seen returns the stored verdict of each message, without a lock. Fresh may be outdated when it returns;
	// other verdicts are final.
	Seen(ctx context.Context, consumer string, ids []Identity) ([]Verdict, error)

	// Claim claims due work of one kind for a session. It postpones the work by Want.Lease, so that no other
	// session claims it meanwhile. It reads at most PageBytes, but at least one message.
	//
	// Parked messages are claimed if they are due and first of their key. Their mark in the intake has
	// KeyOrder Retrying. Prefetched messages are not claimed: see ClaimSize.
	Claim(ctx context.Context, w Want) (Claimed, error)

	// Reserve reserves a key for work outside of a transaction, in one round trip and one commit. Only one of
	// several concurrent calls gets the key. The key is free again when an effect with its Reservation is
	// stored, or when the lease ends by the store's clock.
	Reserve(ctx context.Context, r Reservation) (Reserved, error)

	// Attend reads the checkpoints of a consumer and writes the state of its process, in one round trip and
	// one transaction. It does for consumers as Lease does for relays.
	Attend(ctx context.Context, a Attend) (Attended, error)
}

// Work is a kind of due work.
type Work int8

// ParkedWork is the work of parked messages, the only kind today. A store returns an error for other kinds.
const ParkedWork Work = 0

// Want selects the due work that a session claims.
type Want struct {
	Consumer, Session string
	Work              Work
	ClaimSize
	Lease time.Duration // from now; 0 means that the work is due again immediately
	// Not are types of messages that are left to other builds. Claimed.Next ignores them.
	Not []Kind
	// Attend requests Claimed.Attended.
	Attend bool
}

// Unit is a transaction that Skald began and a handler uses.
type Unit[TTx any] interface {
	// Tx returns the transaction. Its own Commit and Rollback return ErrLent. If a driver cannot prevent them
	// (*sql.Tx), Commit of the Unit detects it and returns ErrLent.
	Tx() TTx
	// Found returns the result of the Intake, index by index.
	Found() Found
	// Outage reports whether a handler's err was caused by a failure of this transaction that is not the
	// handler's fault. Call it before Commit or Rollback. Such failures are a lost connection, a deadlock, a
	// serialization failure and a lock timeout. So is a statement that a context of the handler cancelled.
	// The driver first checks the state of the transaction, then reads from err why it was aborted. An error
	// of another connection is never an outage.
	Outage(ctx context.Context, err error) bool
	// Commit writes the buffered effects, then es, and commits: all or nothing. It stores nothing if a guard
	// is lost (ErrLost) or the transaction was already aborted. After another error the commit may have taken
	// effect; the marks show whether it did. Commit always ends the Unit.
	Commit(ctx context.Context, es ...Effect) error
	// CommitThen commits and, on success, begins next on the same connection and in the same round trip. The
	// commit neither depends on next nor waits for it. A nil Unit means that none was begun, for example
	// because the driver does not support it: call Begin.
	CommitThen(ctx context.Context, next Intake, es ...Effect) (Unit[TTx], error)
	// Rollback undoes everything and then does Apply(instead...). It ends the Unit. Without instead its error
	// only reports a lost connection: the transaction is undone in any case.
	Rollback(ctx context.Context, instead ...Effect) ([]bool, error)
}
