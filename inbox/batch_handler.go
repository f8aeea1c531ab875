package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/store"
)

// A BatchHandler works on several messages at once inside tx, which the inbox commits: one INSERT for all of
// them, for example. Those of one key are in their order. Nil: all are done. Guilty says which one failed,
// and how, as a Handler would; it is taken alone, at its place, and the others again without it. Any other
// error is halved until it is known whose it is. Drafts are said because of a message under
// skald.WithCause(ctx, m).
type BatchHandler[TTx any] func(ctx context.Context, tx TTx, ms []skald.Message) error

// OnBatch handles the event e with h, up to Options.Batch messages at once.
func OnBatch[TTx, T any](in *Inbox[TTx], e skald.Event[T], h func(ctx context.Context, tx TTx, ms []skald.Received[T]) error) {
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
	for _, typ := range types {
		in.Handle(topic, typ, func(ctx context.Context, tx TTx, m skald.Message) error {
			err := h(ctx, tx, []skald.Message{m})
			if g := (*GuiltyError)(nil); errors.As(err, &g) {
				return g.Err
			}
			return err
		})
		in.many[store.Kind{Topic: topic, Type: typ}] = &h
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

// atOnce gives the fresh messages to their batch handler.
func (s *sharing[TTx]) atOnce(ctx context.Context, tx TTx, ms []member, fresh []int) (effects []store.Effect, guilty int, err error) {
	begun := time.Now()
	all := make([]skald.Message, len(fresh))
	for n, i := range fresh {
		all[n] = ms[i].e.Message
		_, ms[i].span = s.in.tel.Process(ctx, &ms[i].e.Message, ms[i].e.Again+1)
	}
	hctx, cancel := context.WithTimeout(lends(ctx, s.in.group, tx, all[0]), s.in.o.Timeouts.Handle)
	defer cancel()
	over := s.in.acts.begin(ms[fresh[0]].e, s.in.o.Timeouts.Handle)
	err = safelyMany(*s.in.many[store.Kind{Topic: all[0].Topic, Type: all[0].Type}], hctx, tx, all)
	over()
	for _, i := range fresh {
		ms[i].took = time.Since(begun) / time.Duration(len(fresh))
	}
	var g *GuiltyError
	switch {
	case err == nil:
		return s.freed(ms, fresh), nobody, nil
	case errors.As(err, &g) && g.Index >= 0 && g.Index < len(fresh):
		return nil, fresh[g.Index], err
	}
	return nil, unnamed, err
}

// freed ends the keeping of those that were claimed.
func (s *sharing[TTx]) freed(ms []member, fresh []int) (effects []store.Effect) {
	for _, i := range fresh {
		if free := s.in.freed(ms[i].e); free != nil {
			effects = append(effects, store.Effect{Finish: free})
		}
	}
	return effects
}

func safelyMany[TTx any](h BatchHandler[TTx], ctx context.Context, tx TTx, ms []skald.Message) (err error) {
	defer failure.Recover(&err)
	return h(ctx, tx, ms)
}
