package progress

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/saga/engine/internal/address"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/store"
)

// headerOrigin carries, on commands, the correlation id of the message in whose handler the saga was started.
const headerOrigin = "saga-origin"

// message completes a command.
func (s *Saga) message(ctx context.Context, a plan.Action, d skald.Draft) (m skald.Message, err error) {
	if n := len(s.address()); n > complete.MaxText {
		return m,
			skald.Permanent(
				fmt.Errorf("the saga's name and key are %d bytes as an address, at most %d are possible: take a shorter key", n, complete.MaxText))
	}
	if o := s.Origin.Correlation; o != "" {
		d.Headers = append(d.Headers, skald.Header{Name: headerOrigin, Value: []byte(o)})
	}
	run, _ := s.State.Run(a.Step, a.Occurrence)
	id := address.Command{Saga: s.Row.ID, Step: run.Born(), Occurrence: a.Occurrence,
		Undo: a.Verb == plan.UndoStep, Number: a.Sends + 1}
	c := complete.Completer{Now: s.clock.Now, NewID: id.ID}
	ms, err := c.Messages(s.Caused(ctx), []skald.Draft{d})
	if limit := (*store.LimitError)(nil); errors.As(err, &limit) {
		err = skald.Permanent(err)
	}
	if err != nil {
		return m, fmt.Errorf("the command of the step %s: %w", a.Step, err)
	}
	return ms[0], nil
}
