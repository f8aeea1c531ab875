package engine

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

// HeaderOrigin carries, on commands, the correlation id of the message in whose handler the saga was started.
const HeaderOrigin = "saga-origin"

func (l *live[TTx]) correlation() string { return address.Of(l.saga.Name, l.saga.Key, l.saga.ID) }

// message completes a command.
func (l *live[TTx]) message(ctx context.Context, a plan.Action, d skald.Draft) (m skald.Message, err error) {
	if n := len(l.correlation()); n > complete.MaxText {
		return m,
			skald.Permanent(
				fmt.Errorf("the saga's name and key are %d bytes as an address, at most %d are possible: take a shorter key", n, complete.MaxText))
	}
	if o := l.origin.Correlation; o != "" {
		d.Headers = append(d.Headers, skald.Header{Name: HeaderOrigin, Value: []byte(o)})
	}
	run, _ := l.state.Run(a.Step, a.Occurrence)
	id := address.Command{Saga: l.saga.ID, Step: run.Born(), Occurrence: a.Occurrence,
		Undo: a.Verb == plan.UndoStep, Number: a.Sends + 1}
	c := complete.Completer{Now: l.e.clock.Now, NewID: id.ID}
	ms, err := c.Messages(l.caused(ctx), []skald.Draft{d})
	if limit := (*store.LimitError)(nil); errors.As(err, &limit) {
		err = skald.Permanent(err)
	}
	if err != nil {
		return m, fmt.Errorf("the command of the step %s: %w", a.Step, err)
	}
	return ms[0], nil
}
