package sagatest

import (
	"context"

	"github.com/skald-go/skald/store"
)

func (d *faultyDriver[TTx]) StartSaga(ctx context.Context, tx TTx, s store.Saga) (store.Saga, bool, error) {
	if err := d.f.alive(); err != nil {
		return store.Saga{}, false, err
	}
	return d.d.StartSaga(ctx, tx, s)
}

func (d *faultyDriver[TTx]) LockSaga(ctx context.Context, tx TTx, name,
	key string) (store.Saga, bool, error) {
	if err := d.f.alive(); err != nil {
		return store.Saga{}, false, err
	}
	return d.d.LockSaga(ctx, tx, name, key)
}

func (d *faultyDriver[TTx]) HoldEntities(ctx context.Context, tx TTx, h store.EntityHold) (bool, error) {
	if err := d.f.alive(); err != nil {
		return false, err
	}
	return d.d.HoldEntities(ctx, tx, h)
}

func (d *faultyDriver[TTx]) InLine(ctx context.Context, tx TTx, holder string) (stands, first bool,
	err error) {
	if err := d.f.alive(); err != nil {
		return false, false, err
	}
	return d.d.InLine(ctx, tx, holder)
}

func (d *faultyDriver[TTx]) FreeEntities(ctx context.Context, tx TTx, holder string) error {
	if err := d.f.alive(); err != nil {
		return err
	}
	return d.d.FreeEntities(ctx, tx, holder)
}

func (d *faultyDriver[TTx]) EntityHolders(ctx context.Context, tx TTx,
	es ...store.Lock) ([]store.Hold, error) {
	if err := d.f.alive(); err != nil {
		return nil, err
	}
	return d.d.EntityHolders(ctx, tx, es...)
}

func (d *faultyDriver[TTx]) ClaimSagas(ctx context.Context, c store.ClaimSagas) (store.ClaimedSagas, error) {
	if err := d.f.live(); err != nil {
		return store.ClaimedSagas{}, err
	}
	out, err := d.d.ClaimSagas(ctx, c)
	if err == nil && len(out.Sagas) > 0 {
		err = d.f.after(ApplyUnknown, d.f.rates.ApplyUnknown, nil)
	}
	return out, err
}

func (d *faultyDriver[TTx]) NoteSagaDefinitions(ctx context.Context, ds []store.SagaDefinition) error {
	if err := d.f.alive(); err != nil {
		return err
	}
	return d.d.NoteSagaDefinitions(ctx, ds)
}

func (d *faultyDriver[TTx]) LockTracked(ctx context.Context, tx TTx, flow string,
	keys ...string) ([]store.Tracked, error) {
	if err := d.f.alive(); err != nil {
		return nil, err
	}
	return d.d.LockTracked(ctx, tx, flow, keys...)
}

func (d *faultyDriver[TTx]) SaveTracked(ctx context.Context, tx TTx, rows ...store.Tracked) error {
	if err := d.f.alive(); err != nil {
		return err
	}
	return d.d.SaveTracked(ctx, tx, rows...)
}

func (d *faultyDriver[TTx]) PayloadSchema(ctx context.Context, registry, id string) (string, error) {
	if err := d.f.alive(); err != nil {
		return "", err
	}
	return d.d.PayloadSchema(ctx, registry, id)
}

func (d *faultyDriver[TTx]) KeepPayloadSchema(ctx context.Context, registry, id, definition string) error {
	if err := d.f.alive(); err != nil {
		return err
	}
	return d.d.KeepPayloadSchema(ctx, registry, id, definition)
}
