package query

import (
	"fmt"
	"slices"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

func moveArgs(m *store.SagaUpdate) []any {
	at := sagarow.StoredStatus(m.SagaStatus)
	return []any{m.Name, m.Key, m.Version, m.Hash, m.State, at.Status, at.Stuck, at.Paused, at.Step, at.Error,
		int32(at.Failed),
		sqlexec.Moment(at.Since), sqlexec.Moment(at.Retry), m.Release, wakeIn(m), m.Final,
		m.Lease.Microseconds()}
}

// wakeIn returns the time until a saga is due again, in microseconds; negative means never.
func wakeIn(m *store.SagaUpdate) int64 {
	if m.Wake < 0 {
		return -1
	}
	return m.Wake.Microseconds()
}

// Move returns the call that stores the new state of a saga. The call fails if the saga has another version.
func (c *Sagas) Move(m *store.SagaUpdate) ([]sqlexec.Call, error) {
	if m == nil {
		return nil, nil
	}
	if err := sagarow.CheckMove(m); err != nil {
		return nil, err
	}
	return []sqlexec.Call{c.pg.Call("MoveSaga", moveArgs(m)...)}, nil
}

// MoveEach returns the call that moves the sagas of several effects in one statement. The call fails if any
// saga has another version.
func (c *Sagas) MoveEach(es []store.Effect) (sqlexec.Call, error) {
	b, err := batchOf(es)
	if err != nil {
		return sqlexec.Call{}, err
	}
	return c.pg.Call("MoveAllSagas", b.args()...), nil
}

// MoveHeld combines the first call with GuardLent, which saves a statement. It can do so only if the first
// call moves a saga that the transaction has locked. Otherwise MoveHeld changes nothing and returns false.
func (c *Sagas) MoveHeld(locked []store.SagaRef, calls []sqlexec.Call) bool {
	if len(calls) == 0 || calls[0].SQL != c.pg.SQL["MoveSaga"] {
		return false
	}
	move := &calls[0]
	held := slices.IndexFunc(locked, func(r store.SagaRef) bool {
		return move.Args[0] == r.Name && move.Args[1] == r.Key && move.Args[2] == r.Version
	})
	if held < 0 {
		return false
	}
	move.SQL = c.pg.SQL["MoveHeld"]
	move.Fail = func(err error) error {
		switch sqlexec.SQLState(err) {
		case "22012":
			return store.ErrLent
		case "22P02":
			return fmt.Errorf("%w: %w", store.ErrLost, err)
		}
		return err
	}
	return true
}

// Stirs reports whether es make a saga claimable, so that engines must wake.
func Stirs(es []store.Effect) bool {
	return slices.ContainsFunc(es,
		func(e store.Effect) bool { return e.Saga != nil && e.Saga.Release && e.Saga.Wake >= 0 })
}
