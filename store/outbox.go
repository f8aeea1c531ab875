package store

import "context"

// Outbox is the part of a Driver that writes messages.
type Outbox[TTx any] interface {
	// Write adds es to tx and never commits it. In the transaction of a Unit, Write buffers the rows until
	// the Unit's Commit, so that the rows cost no extra round trip. These effects may have only Rows, an
	// Answer to a mark of Enter, a Saga, and Tracked sagas. ErrLost, from Write or from the Unit's Commit,
	// means that the saga has changed; roll tx back.
	Write(ctx context.Context, tx TTx, es ...Effect) error
}
