package sagatest

import (
	"context"

	"github.com/skald-go/skald/store"
)

func (d *faultyDriver[TTx]) StartSagas(ctx context.Context, tx TTx,
	ss ...store.Saga) ([]store.Saga, []bool, error) {
	if err := d.f.alive(); err != nil {
		return nil, nil, err
	}
	return d.d.StartSagas(ctx, tx, ss...)
}

func (d *faultyDriver[TTx]) LockSagas(ctx context.Context, tx TTx,
	refs ...store.SagaRef) ([]store.Saga, error) {
	if err := d.f.alive(); err != nil {
		return nil, err
	}
	return d.d.LockSagas(ctx, tx, refs...)
}

func (d *faultyDriver[TTx]) HoldEntities(ctx context.Context, tx TTx, h store.EntityHold) (bool, error) {
	if err := d.f.alive(); err != nil {
		return false, err
	}
	return d.d.HoldEntities(ctx, tx, h)
}

func (d *faultyDriver[TTx]) QueueState(ctx context.Context, tx TTx, holder string) (queued, first bool,
	err error) {
	if err := d.f.alive(); err != nil {
		return false, false, err
	}
	return d.d.QueueState(ctx, tx, holder)
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

func (d *faultyDriver[TTx]) LockTracked(ctx context.Context, tx TTx, flow string,
	keys ...string) ([]store.Tracked, error) {
	if err := d.f.alive(); err != nil {
		return nil, err
	}
	return d.d.LockTracked(ctx, tx, flow, keys...)
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
