package store

import "context"

// An Outbox is the part of a Driver that writes messages.
type Outbox[TTx any] interface {
	// Write adds es to tx, which it never commits. In a transaction that a Unit lent, the rows wait for the
	// Unit's Commit and cost no round trip. Effects written here may hold Rows, an Answer to a mark of
	// Enter's, and a Saga only. ErrLost, of Write or of a Unit's Commit: the saga moved, and tx is for
	// rolling back.
	Write(ctx context.Context, tx TTx, es ...Effect) error
}
