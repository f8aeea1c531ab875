package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

func stepArgs(s *store.Step, more ...any) []any {
	return append([]any{s.Consumer, s.Saga, s.Name, s.Occurrence}, more...)
}

// begunMillis returns the time when the saga of s began, in milliseconds since 1970, or NULL.
func begunMillis(s *store.Step) any {
	if s.Begun.IsZero() {
		return nil
	}
	return s.Begun.UnixMilli()
}

// step takes or undoes the step s and returns the previous state.
func step(ctx context.Context, x *sqlexec.Session, s *store.Step) (found store.Step, err error) {
	var row *sql.Row
	switch s.State {
	case store.StepDone, store.StepCalling:
		row = x.Row(ctx, "TakeStep", stepArgs(s, int64(s.State), s.Source, s.ID, begunMillis(s),
			sqlexec.Text(s.OutsideKey))...)
	case store.StepUndone:
		row = x.Row(ctx, "UndoStep", stepArgs(s, s.Source, s.ID, begunMillis(s))...)
	default:
		return found, fmt.Errorf("step %s: an intake cannot make it %v", s.Name, s.State)
	}
	var result, outcome []byte
	if err := row.Scan(&found.State, &found.Source, &found.ID, &found.Code, &result, &found.OutsideKey,
		&outcome); err != nil {
		return found, fmt.Errorf("step: %w", err)
	}
	found.Result, found.Outcome = string(result), string(outcome)
	if s.State != store.StepUndone && isFree(found.State) || found.State == store.StepAbsent {
		found = store.Step{State: found.State}
	}
	if found.State != store.StepAbsent {
		return found, nil
	}
	var forgotten bool
	if err := x.Row(ctx, "ForgottenStep", s.Consumer, s.Name, begunMillis(s)).Scan(&forgotten); err != nil {
		return found, fmt.Errorf("step: read its floor: %w", err)
	}
	if forgotten {
		found.State = store.StepTooOld
	}
	return found, nil
}

// isFree reports whether a message may take a step in state s.
func isFree(s store.StepState) bool {
	return s == store.StepAbsent || s == store.StepParked || s == store.StepDead
}

// setStep stores the new state of the step s. It fails if the present state is not in s.From.
func setStep(ctx context.Context, x *sqlexec.Session, s *store.Step) error {
	from := int64(0)
	for _, state := range s.From {
		from |= 1 << state
	}
	n, err := x.Count(ctx, "SetStep", stepArgs(s, int64(s.State), s.Source, s.ID, begunMillis(s), s.Code,
		sqlexec.TextBytes(s.Result), sqlexec.Text(s.OutsideKey), sqlexec.TextBytes(s.Outcome), from)...)
	if err != nil {
		return fmt.Errorf("set step: %w", err)
	}
	if n == 0 {
		return fmt.Errorf("step %s of %s has changed: %w", s.Name, s.Saga, store.ErrLost)
	}
	return nil
}

// noteStep records that the message of a step is parked or dead.
func noteStep(ctx context.Context, x *sqlexec.Session, k *store.Park) error {
	s := k.Step
	if s == nil {
		return nil
	}
	state := store.StepParked
	if k.Dead != nil {
		state = store.StepDead
	}
	args := stepArgs(s, int64(state), s.Source, s.ID, begunMillis(s))
	if _, err := x.Exec(ctx, "NoteStep", args...); err != nil {
		return fmt.Errorf("record step: %w", err)
	}
	if k.Dead == nil || !k.Dead.BlocksKey {
		return nil
	}
	return unblockKey(ctx, x, k)
}
