package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/store"
)

// A BatchHandler works on several messages at once inside tx, which the inbox commits: one INSERT for all of
// them, for example. Those of one key are in their order. Nil: all are done. Guilty says which one failed,
// and how, as a Handler would; it is taken alone, at its place, and the others again without it. Any other
// error is halved until it is known whose it is. Drafts are said because of a message under
// skald.WithCause(ctx, m).
type BatchHandler[TTx any] func(ctx context.Context, tx TTx, ms []skald.Message) error

// OnBatch handles the event e with h, up to Options.Batch messages at once.
func OnBatch[TTx, T any](in *Inbox[TTx], e skald.Event[T],
	h func(ctx context.Context, tx TTx, ms []skald.Received[T]) error) {
	in.HandleBatch(e.Topic, func(ctx context.Context, tx TTx, ms []skald.Message) error {
		all := make([]skald.Received[T], len(ms))
		for i, m := range ms {
			var err error
			if all[i], err = decode(ctx, e, m); err != nil {
				return Guilty(i, err)
			}
		}
		return h(ctx, tx, all)
	}, e.Type)
}

// HandleBatch is OnBatch for whole messages, of one type or several: those of all types of one call share a
// batch.
func (in *Inbox[TTx]) HandleBatch(topic string, h BatchHandler[TTx], types ...string) {
	many := exec.BatchHandler[TTx](func(ctx context.Context, tx TTx, ms []skald.Message) (int, error) {
		err := h(ctx, tx, ms)
		if g := (*GuiltyError)(nil); errors.As(err, &g) {
			return g.Index, err
		}
		return -1, err
	})
	for _, typ := range types {
		in.Handle(topic, typ, func(ctx context.Context, tx TTx, m skald.Message) error {
			err := h(ctx, tx, []skald.Message{m})
			if g := (*GuiltyError)(nil); errors.As(err, &g) {
				return g.Err
			}
			return err
		})
		in.exec.HandleBatch(store.Kind{Topic: topic, Type: typ}, &many)
	}
}

// A GuiltyError is what Guilty returns. The inbox finds it through any wrapping.
type GuiltyError struct {
	Index int
	Err   error
}

func (e *GuiltyError) Error() string { return fmt.Sprintf("message %d of a batch: %v", e.Index, e.Err) }
func (e *GuiltyError) Unwrap() error { return e.Err }

// Guilty is a BatchHandler's error of the message with that index; err as of a Handler, skald.Reject for
// example.
func Guilty(index int, err error) error { return &GuiltyError{Index: index, Err: err} }
