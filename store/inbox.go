package store

import (
	"context"
	"time"
)

// Inbox is the part of a Driver that begins the transactions of handlers, and records the messages in them.
type Inbox[TTx any] interface {
	Claimer

	// Begin opens a transaction and applies the Intake to it. The caller ends the Unit once, by Commit or
	// Rollback. If Begin fails, no transaction stays open. It returns ErrBusy if a concurrent transaction
	// holds a mark or a lock for longer than in.Wait.
	Begin(ctx context.Context, in Intake) (Unit[TTx], error)

	// Enter applies the Intake in tx, a transaction of the caller. The timeouts of tx apply. The caller
	// stores the answer to a mark by Write.
	Enter(ctx context.Context, tx TTx, in Intake) (Found, error)
}

// Claimer is the part of an Inbox that needs no transaction of a handler.
type Claimer interface {
	// Seen returns the stored verdict of each message, without a lock. Fresh may be outdated when it returns;
	// other verdicts are final.
	Seen(ctx context.Context, consumer string, ids []Identity) ([]Verdict, error)

	// Claim claims due work for a session, in one transaction: parked messages of a consumer, or sagas. It
	// postpones the work by ClaimRequest.Lease, so that no other session claims it meanwhile.
	//
	// Claim claims a parked message if it is due and is the first of its key. The mark of a claimed message
	// must have KeyOrder Retrying. Prefetched messages are not claimed: see ClaimSize. A claim reads at most
	// PageBytes, but at least one message.
	//
	// Claim claims first the sagas that have been due for the longest time. It raises their versions.
	Claim(ctx context.Context, w ClaimRequest) (Claimed, error)

	// Reserve reserves a key for work outside of a transaction, in one round trip and one commit. Only one of
	// several concurrent calls gets the key. The key is free again when an effect with its Reservation is
	// stored, or when the lease ends by the store's clock.
	Reserve(ctx context.Context, r Reservation) (Reserved, error)

	// SyncConsumer writes the state of one process of a consumer and reads the checkpoints of the consumer,
	// in one round trip and one transaction.
	SyncConsumer(ctx context.Context, a SyncRequest) (SyncResult, error)
}

// ClaimRequest selects the due work that a session claims.
type ClaimRequest struct {
	Session string
	Lease   time.Duration // time until the work is due again; 0 means immediately
	// Sagas selects sagas; nil selects parked messages, by the fields below.
	Sagas *SagaClaimRequest

	Consumer string
	ClaimSize
	// Not has types of messages to leave to other builds. Claimed.Next ignores them.
	Not []Kind
	// Sync also reads the checkpoints of the consumer, into Claimed.Sync.
	Sync bool
}

// SagaClaimRequest selects the due sagas that a session claims.
type SagaClaimRequest struct {
	Hashes []string // definitions that the session can run; it leaves other sagas alone
	Limit  int
}

// Unit is a transaction that Skald began and a handler uses.
type Unit[TTx any] interface {
	// Tx returns the transaction for the handler. Its own Commit and Rollback return ErrLent. If a driver
	// cannot prevent them (*sql.Tx), Commit and Rollback of the Unit detect it and return ErrLent. The
	// database refuses a COMMIT that a handler sends, so such a COMMIT never stores a mark.
	Tx() TTx
	// Found returns the result of the Intake.
	Found() Found
	// Outage reports whether the error err of a handler comes from an outage in this transaction. Examples
	// are a lost connection, a deadlock, a serialization failure, a lock timeout, and a statement that a
	// context of the handler cancelled. Call Outage before Commit or Rollback. The driver first checks the
	// state of the transaction, then reads from err why the transaction was aborted. An error of another
	// connection is never an outage. If err is the database's refusal of PREPARE TRANSACTION, which rolls
	// back, a later Rollback does not return ErrLent.
	Outage(ctx context.Context, err error) bool
	// Return revokes the transaction that Tx returned, because the function with that transaction has
	// returned. Later calls of Tx return another handle. A driver cannot revoke a *sql.Tx, or the connection
	// below a transaction.
	Return()
	// Drop rolls back while a function still uses the transaction, for example because the function ignores
	// its context. Drop closes the connection, so its place in the pool is free. Any goroutine may call Drop.
	// The caller must still end the Unit. After Drop, Rollback only applies instead, and Commit returns an
	// error.
	Drop()
	// Savepoint sets a savepoint for the next function, in place of the last one. A driver may send the
	// savepoint with that function's first statement. Savepoint returns false if the driver has no
	// savepoints.
	Savepoint(ctx context.Context) bool
	// Undo undoes everything since Savepoint. Call it after Return. It returns an error if the function kept
	// a savepoint or the connection, or ended the transaction. Then roll the Unit back.
	Undo(ctx context.Context) error
	// Usable reports whether the next function may use the transaction. Call it between two functions that
	// share the transaction. It returns ErrLent if a function ended the transaction itself, and another error
	// if the transaction is aborted or lost. It returns ErrUnshared if an earlier function left state in the
	// transaction; Commit still succeeds then. A Commit after Usable returns ErrUnshared if Commit finds
	// state that Usable did not find.
	Usable(ctx context.Context) error
	// Commit writes the buffered effects, then the effects es, and commits: all or nothing. It stores nothing
	// if a guard fails (ErrLost) or if the transaction was already aborted. After another error, the commit
	// may have succeeded; the marks show whether it did. Commit always ends the Unit.
	Commit(ctx context.Context, es ...Effect) error
	// CommitThen commits. After success it may begin a Unit with the Intake next, on the same connection and
	// in the same round trip. The commit neither depends on that Unit nor waits for it. If CommitThen returns
	// a nil Unit, it began none, for example because the driver does not support this. Then call Begin.
	CommitThen(ctx context.Context, next Intake, es ...Effect) (Unit[TTx], error)
	// Rollback rolls back and then does Apply(instead...). It ends the Unit. If a function ended the
	// transaction and began another, Rollback returns ErrLent and applies nothing. Any other error without
	// instead means that the connection was lost; the database rolls back then, too.
	Rollback(ctx context.Context, instead ...Effect) ([]bool, error)
}
