package exec

import (
	"context"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// atOnce gives the fresh messages to their batch handler.
func (s *sharing[TTx]) atOnce(ctx context.Context, tx TTx, ms []member,
	fresh []int) (effects []store.Effect, guilty int, err error) {
	begun := time.Now()
	all := make([]skald.Message, len(fresh))
	for n, i := range fresh {
		all[n] = ms[i].e.Message
		_, ms[i].span = s.x.o.Telemetry.Process(ctx, &ms[i].e.Message, ms[i].e.Again+1)
	}
	hctx, cancel := context.WithTimeout(lends(ctx, s.x.o.Group, tx, all[0]), s.x.o.Handle)
	defer cancel()
	over := s.x.acts.Begin(ms[fresh[0]].e, s.x.o.Handle)
	at, err := safelyMany(*s.x.many[store.Kind{Topic: all[0].Topic, Type: all[0].Type}], hctx, tx, all)
	over()
	for _, i := range fresh {
		ms[i].took = time.Since(begun) / time.Duration(len(fresh))
	}
	switch {
	case err == nil:
		return s.freed(ms, fresh), nobody, nil
	case at >= 0 && at < len(fresh):
		return nil, fresh[at], err
	}
	return nil, unnamed, err
}

// freed ends the keeping of those that were claimed.
func (s *sharing[TTx]) freed(ms []member, fresh []int) (effects []store.Effect) {
	for _, i := range fresh {
		if free := s.x.freed(ms[i].e); free != nil {
			effects = append(effects, store.Effect{Finish: free})
		}
	}
	return effects
}

func safelyMany[TTx any](h BatchHandler[TTx], ctx context.Context, tx TTx,
	ms []skald.Message) (guilty int, err error) {
	guilty = unnamed // unless it returns
	err = guarded[TTx](ctx, func() (err error) {
		guilty, err = h(ctx, tx, ms)
		return err
	})
	return guilty, err
}
