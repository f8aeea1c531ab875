package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

// headerOrigin is a header of commands. Its value is the correlation id of the message in whose handler the
// saga was started.
const headerOrigin = "saga-origin"

// checkAddress returns an error if the address of a saga is too long for a message.
func checkAddress(name, key string) error {
	const rest, widest = 64, 3 // bounds for the rest of the address, and for an encoded byte
	if rest+widest*(len(name)+len(key)) <= complete.MaxText {
		return nil // a fast path, because each start calls this
	}
	if n := len(Address(name, key, uuid7.From(time.Time{}, [10]byte{}))); n > complete.MaxText {
		return fmt.Errorf("the saga's name and key are %d bytes as an address, where each of : %% and line breaks "+
			"takes three; at most %d are possible: use a shorter key", n, complete.MaxText)
	}
	return nil
}

// message returns the message of the command of a, made from the draft d.
func (s *saga) message(ctx context.Context, a plan.Action, d skald.Draft) (m skald.Message, err error) {
	if err := checkAddress(s.Row.Name, s.Row.Key); err != nil { // an earlier build started it
		return m, skald.Permanent(err)
	}
	if o := s.Origin.Correlation; o != "" {
		d.Headers = append(d.Headers, skald.Header{Name: headerOrigin, Value: []byte(o)})
	}
	run, _ := s.State.Run(a.Step, a.Occurrence)
	id := command{Saga: s.Row.ID, Step: run.Born(), Occurrence: a.Occurrence,
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
