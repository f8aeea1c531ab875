package pgstore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/query"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

var (
	errEnded = errors.New("the unit has ended")
	errKept  = fmt.Errorf("its message is parked or dead: %w", store.ErrLost)
)

// outflow returns the calls that apply es at the end of a transaction. The calls with guards come first, and
// the outbox rows of all effects last. rows are the messages that the handler wrote earlier. locked has the
// entities that the intake of the transaction locked, and marks has the marks that the intake took.
func (c *core) outflow(es []store.Effect, rows []query.Row, locked query.Locked,
	marks ...store.Mark) ([]sqlexec.Call, error) {
	ours := query.TakenOf(marks, es)
	calls := c.kept.FinishMany(es, ours)
	together := len(calls) > 0
	for i := range es {
		e := &es[i]
		if e.Mark != nil {
			calls = append(calls, c.kept.GuardKeyOrder(e.Mark)...)
			mark, err := c.marks.Guard(e.Mark)
			if err != nil {
				return nil, err
			}
			calls = append(calls, mark...)
		}
		calls = append(calls, c.steps.Set(e.Step)...)
		locks, err := c.entities.Guard(e.Locks, &locked)
		if err != nil {
			return nil, err
		}
		calls = append(calls, locks...)
		moves, err := c.sagas.Move(e.Saga)
		if err != nil {
			return nil, err
		}
		calls = append(calls, moves...)
		tracked, err := c.sagas.SaveTracked(e.Tracked)
		if err != nil {
			return nil, err
		}
		calls = append(calls, tracked...)
		definitions, err := c.sagas.NoteDefinitions(e.Definitions)
		if err != nil {
			return nil, err
		}
		calls = append(calls, definitions...)
		more, err := query.Rows(e.Rows)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
		if e.Shard != nil {
			calls = append(calls, c.outbox.Progress(e.Shard)...)
		}
		others, err := c.consumerCalls(e)
		if err != nil {
			return nil, err
		}
		keep, err := c.kept.Change(e, together, ours)
		if err != nil {
			return nil, err
		}
		calls = append(append(append(calls, others...), keep...), c.operatorCalls(e)...)
		calls = append(calls, c.steps.Note(e.Park)...)
	}
	if len(rows) > 0 {
		calls = append(calls, c.outbox.Insert(rows))
	}
	return calls, nil
}

// consumerCalls returns the calls for the answer, the reservation and the quarantine of e.
func (c *core) consumerCalls(e *store.Effect) ([]sqlexec.Call, error) {
	calls := c.marks.GuardReservation(e.Reservation)
	if e.Answer != nil {
		answer, err := c.marks.Answer(e.Answer)
		if err != nil {
			return nil, err
		}
		calls = append(calls, answer...)
	}
	others, err := c.kept.Quarantine(e)
	return append(calls, others...), err
}

// operatorCalls returns the calls for the actions of an operator in e, except actions on parked messages.
func (c *core) operatorCalls(e *store.Effect) (calls []sqlexec.Call) {
	if e.Rewind != nil {
		calls = append(calls, c.consumers.Rewind(e.Rewind))
	}
	if e.Control != nil {
		calls = append(calls, c.consumers.Control(e.Control)...)
	}
	if e.DropDeferred != nil {
		calls = append(calls, c.outbox.DropDeferred(e.DropDeferred.ID)...)
	}
	if e.Audit != nil {
		calls = append(calls, query.Note(c.pg, e.Audit))
	}
	return calls
}

func messages(es []store.Effect) []skald.Message {
	var out []skald.Message
	for _, e := range es {
		out = append(out, e.Rows...)
	}
	return out
}

func hasRows(es []store.Effect) bool {
	return slices.ContainsFunc(es, func(e store.Effect) bool { return len(e.Rows) > 0 })
}

// onlyRows returns the outbox rows of es. It returns column.ErrRowsOnly if an effect has a part that Write
// does not allow.
func onlyRows(es []store.Effect) ([]query.Row, error) {
	var out []query.Row
	for i := range es {
		e := &es[i]
		if !column.RowsOnly(*e) {
			return nil, column.ErrRowsOnly
		}
		rows, err := query.Rows(e.Rows)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}
