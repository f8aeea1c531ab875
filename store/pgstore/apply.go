package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/query"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

const (
	markEffect = "savepoint skald_effect"
	undoEffect = "rollback to savepoint skald_effect"
	keepEffect = "release savepoint skald_effect"
)

// Apply applies the effects in order, in one transaction. An effect may have guards: conditions on rows
// that must still hold. If a guard fails, Apply skips that effect and returns false for it. Any other error
// undoes all effects. Usually every guard holds, and Apply needs one round trip. Otherwise Apply begins a new
// transaction and sends the effects one by one.
func (c *core) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	stored := make([]bool, len(es))
	switch {
	case c.pg.Err != nil:
		return stored, c.pg.Err
	case len(es) == 1:
		var err error
		stored[0], err = c.applyOne(ctx, es[0])
		return stored, err
	case len(es) > 0 && query.CursorsOnly(es) == len(es):
		return stored, c.outbox.KeepAll(ctx, es, stored)
	case len(es) > 1 && query.MovesOnly(es):
		return c.moveMany(ctx, es)
	}
	groups, err := c.callsOfEach(es, stored)
	if err == nil {
		wait := sagarow.LockWait(es, sqlexec.DefaultWait)
		if err = c.sendAll(ctx, wait, groups); sqlexec.Lost(err) {
			err = c.sendEach(ctx, wait, groups, stored)
		}
	}
	if err != nil {
		return make([]bool, len(es)), sqlexec.Limit(err, messages(es))
	}
	for i := range es {
		if stored[i] {
			c.wakeFor(es[i])
		}
	}
	return stored, nil
}

// callsOfEach returns the calls of each effect. If the intake already showed that a guard fails, the effect
// gets no calls, and callsOfEach sets its element of stored to false.
func (c *core) callsOfEach(es []store.Effect, stored []bool) ([][]sqlexec.Call, error) {
	groups := make([][]sqlexec.Call, len(es))
	for i := range es {
		calls, err := c.outflow(es[i:i+1], nil, nil)
		if err != nil && !errors.Is(err, store.ErrLost) {
			return nil, fmt.Errorf("apply effect %d of %d: %w", i+1, len(es), err)
		}
		if stored[i] = err == nil; stored[i] {
			groups[i] = calls
		}
	}
	return groups, nil
}

func (c *core) sendAll(ctx context.Context, wait time.Duration, groups [][]sqlexec.Call) error {
	var all []sqlexec.Call
	for _, calls := range groups {
		all = append(all, calls...)
	}
	if len(all) == 0 {
		return ctx.Err()
	}
	return c.pg.Within(ctx, wait, "apply", all...)
}

// sendEach sends the groups as one transaction, with a savepoint for each group. A group costs one round
// trip. It costs two round trips if its guard fails and sendEach rolls the group back.
func (c *core) sendEach(ctx context.Context, wait time.Duration, groups [][]sqlexec.Call,
	stored []bool) error {
	err := c.pg.Runner.Within(ctx, c.pg.OwnSession(wait), func(send sqlexec.Sender) error {
		for i, calls := range groups {
			if len(calls) == 0 {
				continue
			}
			all := append(append([]sqlexec.Call{{SQL: markEffect}}, calls...), sqlexec.Call{SQL: keepEffect})
			err := send(ctx, all...)
			if sqlexec.Lost(err) {
				stored[i] = false
				err = send(ctx, sqlexec.Call{SQL: undoEffect})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("apply: %w", c.pg.Own(err))
	}
	return nil
}

func (c *core) applyOne(ctx context.Context, e store.Effect) (bool, error) {
	calls, err := c.outflow([]store.Effect{e}, nil, nil)
	if err == nil && len(calls) == 0 {
		return true, ctx.Err()
	}
	if err == nil {
		err = c.pg.Within(ctx, sagarow.LockWait([]store.Effect{e}, sqlexec.DefaultWait), "apply", calls...)
	}
	return c.verdict(err, e)
}

// verdict turns the result of e into the result of Apply. After a success it wakes relays and engines.
// It returns false without an error if a guard of e failed.
func (c *core) verdict(err error, e store.Effect) (bool, error) {
	switch {
	case err == nil:
		c.wakeFor(e)
		return true, nil
	case sqlexec.Lost(err) || errors.Is(err, store.ErrLost):
		return false, nil
	}
	return false, sqlexec.Limit(err, e.Rows)
}

// moveMany applies effects that only move sagas. All moves share a few statements.
func (c *core) moveMany(ctx context.Context, es []store.Effect) ([]bool, error) {
	stored, err := c.sagas.MoveMany(ctx, es,
		func(with []store.Effect) ([]sqlexec.Call, error) { return c.outflow(with, nil, nil) })
	if err != nil {
		return make([]bool, len(es)), sqlexec.Limit(err, messages(es))
	}
	var applied []store.Effect
	for i := range es {
		if stored[i] {
			applied = append(applied, es[i])
		}
	}
	c.wakeFor(applied...)
	return stored, nil
}

// wakeFor wakes the relays and engines of this process if the stored es have outbox rows or claimable sagas.
func (c *core) wakeFor(es ...store.Effect) {
	if hasRows(es) || query.Stirs(es) {
		c.waker.Wake()
	}
}
