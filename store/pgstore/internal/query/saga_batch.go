package query

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// MovesOnly reports whether each effect moves a different saga and otherwise has only outbox rows and an
// audit.
func MovesOnly(es []store.Effect) bool {
	known := make(map[[2]string]bool, len(es))
	for i := range es {
		e := es[i]
		if e.Saga == nil || known[[2]string{e.Saga.Name, e.Saga.Key}] {
			return false
		}
		known[[2]string{e.Saga.Name, e.Saga.Key}] = true
		e.Saga, e.Rows, e.Audit = nil, nil, nil
		if !reflect.ValueOf(e).IsZero() {
			return false
		}
	}
	return true
}

// withoutMoves returns the effects that have rows or an audit, but without their moves.
func withoutMoves(es []store.Effect) (out []store.Effect) {
	for i := range es {
		if e := es[i]; len(e.Rows) > 0 || e.Audit != nil {
			e.Saga = nil
			out = append(out, e)
		}
	}
	return out
}

// batch has the moves of many sagas, in the order of names and keys, so that two batches cannot deadlock.
type batch struct {
	moves []*store.SagaUpdate
	place []int // index of each move in the effects
}

func batchOf(es []store.Effect) (b batch, err error) {
	for i := range es {
		if err := sagarow.CheckMove(es[i].Saga); err != nil {
			return b, fmt.Errorf("apply effect %d of %d: %w", i+1, len(es), err)
		}
		b.place = append(b.place, i)
	}
	slices.SortFunc(b.place, func(i, j int) int { return bySaga(es[i].Saga.SagaRef, es[j].Saga.SagaRef) })
	for _, i := range b.place {
		b.moves = append(b.moves, es[i].Saga)
	}
	return b, nil
}

// args returns the columns of the moves as arrays.
func (b *batch) args() []any {
	n := len(b.moves)
	names, keys, hashes, states := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	statuses, steps, errs := make([]string, n), make([]string, n), make([]string, n)
	versions, wakes, leases, failed := make([]int64, n), make([]int64, n), make([]int64, n), make([]int32, n)
	stuck, paused, releases, finals := make([]bool, n), make([]bool, n), make([]bool, n), make([]bool, n)
	since, retry := make([]*time.Time, n), make([]*time.Time, n)
	for i, m := range b.moves {
		at := sagarow.StoredStatus(m.SagaStatus)
		names[i], keys[i], versions[i], hashes[i], states[i] = m.Name, m.Key, m.Version, m.Hash, m.State
		statuses[i], stuck[i], paused[i], steps[i], errs[i], failed[i] = at.Status, at.Stuck, at.Paused,
			at.Step, at.Error, int32(at.Failed)
		since[i], retry[i], releases[i], wakes[i], finals[i] = sqlexec.Moment(at.Since),
			sqlexec.Moment(at.Retry), m.Release, wakeIn(m), m.Final
		leases[i] = m.Lease.Microseconds()
	}
	return []any{names, keys, versions, hashes, states, statuses, stuck, paused, steps, errs, failed, since,
		retry, releases, wakes, finals, leases}
}

// callMaker returns the calls for effects without moves.
type callMaker func([]store.Effect) ([]sqlexec.Call, error)

// MoveMany applies effects for which MovesOnly returns true. The result is true for each stored effect.
// Usually MoveMany needs one statement for all moves, one for all rows, and one round trip. If the guard of a
// move fails, it sends the moves again, and then only the rows of the stored moves.
func (c *Sagas) MoveMany(ctx context.Context, es []store.Effect, callsFor callMaker) ([]bool, error) {
	stored := make([]bool, len(es))
	b, err := batchOf(es)
	if err != nil {
		return stored, err
	}
	moves := c.pg.Call("MoveSagas", b.args()...)
	moves.Scan = func(row sqlexec.Scanner) error {
		var n int64
		err := row.Scan(&n)
		if err == nil {
			stored[b.place[n-1]] = true
		}
		return err
	}
	wait, others := sagarow.LockWait(es, sqlexec.DefaultWait), withoutMoves(es)
	if len(others) == 0 {
		return stored, c.pg.Within(ctx, wait, "apply", c.pg.Call("Walk"), moves)
	}
	err = c.moveAll(ctx, wait, b.args(), others, callsFor)
	if err == nil {
		return slices.Repeat([]bool{true}, len(es)), nil
	}
	if sqlexec.Lost(err) {
		err = c.moveSome(ctx, moves, es, stored, callsFor)
	}
	return stored, err
}

// moveAll applies all moves and the other parts of their effects, or fails.
func (c *Sagas) moveAll(ctx context.Context, wait time.Duration, args []any, others []store.Effect,
	callsFor callMaker) error {
	calls, err := callsFor(others)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	return c.pg.Within(ctx, wait, "apply",
		append([]sqlexec.Call{c.pg.Call("Walk"), c.pg.Call("MoveAllSagas", args...)}, calls...)...)
}

// moveSome applies the moves of the sagas that have the expected version, and the other parts of their
// effects.
func (c *Sagas) moveSome(ctx context.Context, moves sqlexec.Call, es []store.Effect, stored []bool,
	callsFor callMaker) error {
	session := c.pg.OwnSession(sagarow.LockWait(es, sqlexec.DefaultWait))
	err := c.pg.Runner.Within(ctx, session, func(send sqlexec.Sender) error {
		if err := send(ctx, c.pg.Call("Walk"), moves); err != nil {
			return err
		}
		var applied []store.Effect
		for i := range es {
			if stored[i] {
				applied = append(applied, es[i])
			}
		}
		calls, err := callsFor(withoutMoves(applied))
		if err != nil || len(calls) == 0 {
			return err
		}
		return send(ctx, calls...)
	})
	if err != nil {
		return fmt.Errorf("apply: %w", c.pg.Own(err))
	}
	return nil
}
