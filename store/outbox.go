package store

import "context"

// Outbox is the part of a Driver that writes messages.
type Outbox[TTx any] interface {
	// Write adds es to tx and never commits tx. In the transaction of a Unit, Write may buffer the rows until
	// the Unit's Commit, so that they cost no extra round trip. These effects may have only Rows, an Answer
	// to a mark of Enter, a Saga, and Tracked sagas. If Write or the Unit's Commit returns ErrLost, a saga
	// has changed; roll tx back.
	Write(ctx context.Context, tx TTx, es ...Effect) error
}
