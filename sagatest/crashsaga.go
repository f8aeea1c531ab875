package sagatest

import (
	"context"
	"fmt"

	"github.com/skald-go/skald/store"
)

func (c *crashDriver[TTx]) StartSaga(ctx context.Context, tx TTx,
	s store.Saga) (stored store.Saga, fresh bool, err error) {
	err = c.p.io(call{act: "StartSaga", effect: true, note: func() string { return s.Name + " " + s.Key }},
		func() (err error) {
			stored, fresh, err = c.d.StartSaga(ctx, tx, s)
			c.p.had(fresh, " fresh: %v", fresh)
			return err
		})
	return stored, fresh, err
}

func (c *crashDriver[TTx]) LockSaga(ctx context.Context, tx TTx, name,
	key string) (stored store.Saga, there bool, err error) {
	err = c.p.io(call{act: "LockSaga", note: func() string { return name + " " + key }}, func() (err error) {
		stored, there, err = c.d.LockSaga(ctx, tx, name, key)
		return err
	})
	return stored, there, err
}

func (c *crashDriver[TTx]) HoldEntities(ctx context.Context, tx TTx, h store.EntityHold) (first bool,
	err error) {
	err = c.p.io(call{act: "HoldEntities", effect: true, note: func() string { return short(h.Saga.Key) }},
		func() (err error) {
			first, err = c.d.HoldEntities(ctx, tx, h)
			c.p.had(first, " first: %v", first)
			return err
		})
	return first, err
}

func (c *crashDriver[TTx]) InLine(ctx context.Context, tx TTx, holder string) (stands, first bool,
	err error) {
	err = c.p.io(call{act: "InLine"}, func() (err error) {
		stands, first, err = c.d.InLine(ctx, tx, holder)
		c.p.had(first, " first: %v", first)
		return err
	})
	return stands, first, err
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

func (c *crashDriver[TTx]) ClaimSagas(ctx context.Context,
	ask store.ClaimSagas) (out store.ClaimedSagas, err error) {
	err = c.p.io(call{act: "ClaimSagas", effect: true}, func() (err error) {
		out, err = c.d.ClaimSagas(ctx, ask)
		c.p.had(len(out.Sagas) > 0, " %d sagas", len(out.Sagas))
		return err
	})
	return out, err
}

func (c *crashDriver[TTx]) NoteSagaDefinitions(ctx context.Context, ds []store.SagaDefinition) error {
	return c.p.io(call{act: "NoteSagaDefinitions", effect: true},
		func() error { return c.d.NoteSagaDefinitions(ctx, ds) })
}

func sagaNote(m *store.SagaMove) string {
	if m == nil {
		return ""
	}
	return fmt.Sprintf(" saga %s after %d: %s", short(m.Key), m.Version, m.Status)
}

func (c *crashDriver[TTx]) LockTracked(ctx context.Context, tx TTx, flow string,
	keys ...string) (rows []store.Tracked, err error) {
	err = c.p.io(call{act: "LockTracked", effect: true}, func() (err error) {
		rows, err = c.d.LockTracked(ctx, tx, flow, keys...)
		return err
	})
	return rows, err
}

func (c *crashDriver[TTx]) SaveTracked(ctx context.Context, tx TTx, rows ...store.Tracked) error {
	return c.p.io(call{act: "SaveTracked", effect: true},
		func() error { return c.d.SaveTracked(ctx, tx, rows...) })
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
