package exec

import (
	"context"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// A Reply is what a handler answers besides its effect.
type Reply struct {
	Code  int32
	Value any           // encoded once, by Config.Codec. Nil: none
	Say   []skald.Draft // written into the outbox, after what the handler wrote itself
}

// A Handler is what is run for a message in its transaction.
type Handler[TTx any] func(ctx context.Context, tx TTx, m skald.Message) (Reply, error)

// A BatchHandler is what is run for several messages at once. Guilty is the index of the one that failed;
// below zero: one of them.
type BatchHandler[TTx any] func(ctx context.Context, tx TTx, ms []skald.Message) (guilty int, err error)

// A Known function asks a table of the user's whether a message was handled, and notes that it is.
type Known[TTx any] func(ctx context.Context, tx TTx, id store.Identity,
	m skald.Message) (known bool, err error)
