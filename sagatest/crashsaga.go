package sagatest

import (
	"context"
	"fmt"
	"slices"

	"github.com/skald-go/skald/store"
)

func (c *crashDriver[TTx]) StartSagas(ctx context.Context, tx TTx,
	ss ...store.Saga) (stored []store.Saga, fresh []bool, err error) {
	note := func() string {
		if len(ss) == 1 {
			return ss[0].Name + " " + ss[0].Key
		}
		return fmt.Sprint(len(ss))
	}
	err = c.p.io(call{act: "StartSagas", effect: true, note: note}, func() (err error) {
		stored, fresh, err = c.d.StartSagas(ctx, tx, ss...)
		c.p.addResult(slices.Contains(fresh, true), " fresh: %v", fresh)
		return err
	})
	return stored, fresh, err
}

func (c *crashDriver[TTx]) LockSagas(ctx context.Context, tx TTx,
	refs ...store.SagaRef) (stored []store.Saga, err error) {
	note := func() string {
		if len(refs) == 1 {
			return refs[0].Name + " " + refs[0].Key
		}
		return fmt.Sprint(len(refs))
	}
	err = c.p.io(call{act: "LockSagas", note: note}, func() (err error) {
		stored, err = c.d.LockSagas(ctx, tx, refs...)
		return err
	})
	return stored, err
}

func (c *crashDriver[TTx]) HoldEntities(ctx context.Context, tx TTx, h store.EntityHold) (first bool,
	err error) {
	err = c.p.io(call{act: "HoldEntities", effect: true, note: func() string { return shortID(h.Saga.Key) }},
		func() (err error) {
			first, err = c.d.HoldEntities(ctx, tx, h)
			c.p.addResult(first, " first: %v", first)
			return err
		})
	return first, err
}

func (c *crashDriver[TTx]) QueueState(ctx context.Context, tx TTx, holder string) (queued, first bool,
	err error) {
	err = c.p.io(call{act: "QueueState"}, func() (err error) {
		queued, first, err = c.d.QueueState(ctx, tx, holder)
		c.p.addResult(first, " first: %v", first)
		return err
	})
	return queued, first, err
}

func (c *crashDriver[TTx]) FreeEntities(ctx context.Context, tx TTx, holder string) error {
	return c.p.io(call{act: "FreeEntities", effect: true},
		func() error { return c.d.FreeEntities(ctx, tx, holder) })
}

func (c *crashDriver[TTx]) EntityHolders(ctx context.Context, tx TTx, es ...store.Lock) (hs []store.Hold,
	err error) {
	err = c.p.io(call{act: "EntityHolders"}, func() (err error) {
		hs, err = c.d.EntityHolders(ctx, tx, es...)
		return err
	})
	return hs, err
}

func sagaNote(m *store.SagaUpdate) string {
	if m == nil {
		return ""
	}
	return fmt.Sprintf(" saga %s after %d: %s", shortID(m.Key), m.Version, m.Status)
}

func (c *crashDriver[TTx]) LockTracked(ctx context.Context, tx TTx, flow string,
	keys ...string) (rows []store.Tracked, err error) {
	err = c.p.io(call{act: "LockTracked", effect: true}, func() (err error) {
		rows, err = c.d.LockTracked(ctx, tx, flow, keys...)
		return err
	})
	return rows, err
}

func (c *crashDriver[TTx]) PayloadSchema(ctx context.Context, registry,
	id string) (definition string, err error) {
	err = c.p.io(call{act: "PayloadSchema"}, func() (err error) {
		definition, err = c.d.PayloadSchema(ctx, registry, id)
		return err
	})
	return definition, err
}

func (c *crashDriver[TTx]) KeepPayloadSchema(ctx context.Context, registry, id, definition string) error {
	return c.p.io(call{act: "KeepPayloadSchema", effect: true}, func() error {
		return c.d.KeepPayloadSchema(ctx, registry, id, definition)
	})
}
