package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/query"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

const (
	markEffect = "savepoint skald_effect"
	undoEffect = "rollback to savepoint skald_effect"
	keepEffect = "release savepoint skald_effect"
)

// Apply carries out the effects in order, in one transaction: one commit for all. A lost guard drops its
// effect alone, an error all of them. As a rule no guard is lost, and one round trip does. If one is, it
// starts again and sends effect after effect.
func (c *core) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	stood := make([]bool, len(es))
	switch {
	case c.pg.Err != nil:
		return stood, c.pg.Err
	case len(es) == 1:
		var err error
		stood[0], err = c.applyOne(ctx, es[0])
		return stood, err
	case len(es) > 0 && query.CursorsOnly(es) == len(es):
		return stood, c.outbox.KeepAll(ctx, es, stood)
	case len(es) > 1 && query.MovesOnly(es):
		return c.moveMany(ctx, es)
	}
	groups, err := c.groups(es, stood)
	if err == nil {
		if err = c.together(ctx, groups); sqlexec.Lost(err) {
			err = c.oneByOne(ctx, groups, stood)
		}
	}
	if err != nil {
		return make([]bool, len(es)), sqlexec.Limit(err, messages(es))
	}
	for i := range es {
		if stood[i] {
			c.stood(es[i])
		}
	}
	return stood, nil
}

// groups are the calls of each effect. One that is lost before anything is sent has none, and did not stand.
func (c *core) groups(es []store.Effect, stood []bool) ([][]sqlexec.Call, error) {
	groups := make([][]sqlexec.Call, len(es))
	for i := range es {
		calls, err := c.outflow(es[i:i+1], nil, nil)
		if err != nil && !errors.Is(err, store.ErrLost) {
			return nil, fmt.Errorf("apply effect %d of %d: %w", i+1, len(es), err)
		}
		if stood[i] = err == nil; stood[i] {
			groups[i] = calls
		}
	}
	return groups, nil
}

// together sends all of them as one transaction.
func (c *core) together(ctx context.Context, groups [][]sqlexec.Call) error {
	var all []sqlexec.Call
	for _, calls := range groups {
		all = append(all, calls...)
	}
	if len(all) == 0 {
		return ctx.Err()
	}
	return c.pg.Short(ctx, "apply", all...)
}

// oneByOne sends them as one transaction with a savepoint for each: a round trip for each, and one more for
// each that is lost.
func (c *core) oneByOne(ctx context.Context, groups [][]sqlexec.Call, stood []bool) error {
	err := c.pg.Runner.Within(ctx, c.pg.OwnSession(), func(send sqlexec.Sender) error {
		for i, calls := range groups {
			if len(calls) == 0 {
				continue
			}
			all := append(append([]sqlexec.Call{{SQL: markEffect}}, calls...), sqlexec.Call{SQL: keepEffect})
			err := send(ctx, all...)
			if sqlexec.Lost(err) {
				stood[i] = false
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
		wait := sqlexec.DefaultWait
		if e.Saga != nil && e.Saga.Wait > 0 {
			wait = e.Saga.Wait
		}
		err = c.pg.Within(ctx, wait, "apply", calls...)
	}
	return c.verdict(err, e)
}

// verdict tells a lost guard from an error, and wakes whoever waits for rows.
func (c *core) verdict(err error, e store.Effect) (bool, error) {
	switch {
	case err == nil:
		c.stood(e)
		return true, nil
	case sqlexec.Lost(err) || errors.Is(err, store.ErrLost):
		return false, nil
	}
	return false, sqlexec.Limit(err, e.Rows)
}

// moveMany moves sagas together.
func (c *core) moveMany(ctx context.Context, es []store.Effect) ([]bool, error) {
	stood, err := c.sagas.MoveMany(ctx, es,
		func(said []store.Effect) ([]sqlexec.Call, error) { return c.outflow(said, nil, nil) })
	if err != nil {
		return make([]bool, len(es)), sqlexec.Limit(err, messages(es))
	}
	var stand []store.Effect
	for i := range es {
		if stood[i] {
			stand = append(stand, es[i])
		}
	}
	c.stood(stand...)
	return stood, nil
}

// stood wakes whoever waits for rows or sagas of effects that stand.
func (c *core) stood(es ...store.Effect) {
	if speaks(es) || query.Stirs(es) {
		c.waker.Wake()
	}
}
