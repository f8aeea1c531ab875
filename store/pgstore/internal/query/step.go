// This file has the steps of sagas across services. A message takes a step, and another message may undo it.

package query

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// forgottenStep is a part of the statements that take a step: see TakeStep in step.sql. It is true if
// retention may have deleted the step. The floor of a step is the time up to which its rows are deleted. A
// saga of the last hour needs no read of the floor, because the floor is always older: see leastSteps in
// package admin.
const forgottenStep = `s.was = 0 AND CASE WHEN s.begun > clock_timestamp() - interval '1 hour' THEN false
		ELSE EXISTS (SELECT FROM /*schema*/skald_step AS o
				WHERE o.consumer = $1::text AND o.saga = $2::text AND o.step = $3::text AND o.occurrence = $4::text)
			OR EXISTS (SELECT FROM /*schema*/skald_step_floor AS f
				WHERE f.consumer = $1::text AND f.step = $3::text AND f.at > coalesce(s.begun, '-infinity')) END`

// completeSteps completes the statements with forgottenStep.
func completeSteps(raw map[string]string) {
	for name, text := range raw {
		raw[name] = strings.ReplaceAll(text, "/*forgotten*/", forgottenStep)
	}
}

// Steps has the steps of one database.
type Steps struct{ pg *sqlexec.DB }

// NewStep returns the steps of pg.
func NewStep(pg *sqlexec.DB) *Steps { return &Steps{pg} }

// Compare orders steps by their names, so that all transactions take them in one order.
func Compare(a, b store.Step) int {
	return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Saga, b.Saga),
		cmp.Compare(a.Name, b.Name), cmp.Compare(a.Occurrence, b.Occurrence))
}

func stepArgs(s *store.Step, more ...any) []any {
	return append([]any{sqlexec.Name(s.Consumer), sqlexec.Name(s.Saga), sqlexec.Name(s.Name),
		sqlexec.Name(s.Occurrence)}, more...)
}

// isFree reports whether a message may take a step in state s.
func isFree(s store.StepState) bool {
	return s == store.StepAbsent || s == store.StepParked || s == store.StepDead
}

// Take returns the call that takes or undoes the step s. The call reads the old state of the step into
// previous.
func (c *Steps) Take(s, previous *store.Step) (take sqlexec.Call, err error) {
	switch s.State {
	case store.StepDone, store.StepCalling:
		take = c.pg.Call("TakeStep", stepArgs(s, int16(s.State), sqlexec.Name(s.Source), sqlexec.Name(s.ID),
			sqlexec.Moment(s.Begun), sqlexec.Some(sqlexec.StorableText(s.OutsideKey)))...)
	case store.StepUndone:
		take = c.pg.Call("UndoStep", stepArgs(s, sqlexec.Name(s.Source), sqlexec.Name(s.ID),
			sqlexec.Moment(s.Begun))...)
	default:
		return take, fmt.Errorf("step %.40q: an intake cannot make it %v", s.Name, s.State)
	}
	take.Scan = func(row sqlexec.Scanner) error {
		var was store.Step
		var result, outcome sqlexec.Blob
		var tooOld bool
		if err := row.Scan(&was.State, &was.Source, &was.ID, &was.Code, &result, &was.OutsideKey, &outcome,
			&tooOld); err != nil {
			return err
		}
		was.Result, was.Outcome = string(result), string(outcome)
		// a step has the hash of a long ID, so found gets the ID itself if it is the same message
		if was.Source == sqlexec.Name(s.Source) && was.ID == sqlexec.Name(s.ID) {
			was.Identity = s.Identity
		} else {
			sqlexec.Handles(&was.Source, &was.ID)
		}
		if s.State != store.StepUndone && isFree(was.State) || was.State == store.StepAbsent {
			was = store.Step{State: was.State}
		}
		if tooOld && was.State == store.StepAbsent {
			was.State = store.StepTooOld
		}
		*previous = was
		return nil
	}
	return take, nil
}

// Set returns the call that stores the new state of the step s. The call fails if the present state is not in
// s.From.
func (c *Steps) Set(s *store.Step) []sqlexec.Call {
	if s == nil {
		return nil
	}
	from := int32(0)
	for _, state := range s.From {
		from |= 1 << state
	}
	return []sqlexec.Call{c.pg.Call("SetStep", stepArgs(s, int16(s.State), sqlexec.Name(s.Source),
		sqlexec.Name(s.ID), sqlexec.Moment(s.Begun), s.Code, blobOrNull(s.Result),
		sqlexec.Some(sqlexec.StorableText(s.OutsideKey)), blobOrNull(s.Outcome), from)...)}
}

func blobOrNull(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

// Note returns the calls that record that the message of a step is parked or dead. If the step is already
// undone, a dead letter stops blocking its key.
func (c *Steps) Note(k *store.Park) []sqlexec.Call {
	if k == nil || k.Step == nil {
		return nil
	}
	s, state := k.Step, store.StepParked
	if k.Dead != nil {
		state = store.StepDead
	}
	note := c.pg.Call("NoteStep", stepArgs(s, int16(state), sqlexec.Name(s.Source), sqlexec.Name(s.ID),
		sqlexec.Moment(s.Begun))...)
	if k.Dead == nil || !k.Dead.BlocksKey {
		return []sqlexec.Call{note}
	}
	id := sqlexec.Identity(k.Consumer, k.Identity)
	return []sqlexec.Call{note, c.pg.Call("LetGo", append(slices.Clone(id), sqlexec.Name(s.Saga),
		sqlexec.Name(s.Name), sqlexec.Name(s.Occurrence))...), c.pg.Call("SettleParked", id...)}
}
