package memstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

// Finish checks the guards of f and returns the change that deletes the message and unblocks its key.
func (ms *messages) Finish(f *store.Finish) (change, error) {
	k, err := ms.parkedAs(markKey{Consumer: f.Consumer, Identity: f.Identity}, f.Attempts)
	if err == nil && f.Attempts != nil {
		err = k.checkCall(f.WasCall)
	}
	if err == nil {
		err = k.checkStillDead(f.DeadAt)
	}
	if err == nil && f.Place != 0 && f.Place != k.Place {
		err = fmt.Errorf("%s has another place now: %w", k.ID, store.ErrLost)
	}
	if err != nil {
		return nil, err
	}
	return func(now time.Time) {
		delete(ms.rows, k.id())
		ms.settle(k.keyLock(), now)
	}, nil
}

// Requeue checks the guards of r and returns the change that makes the message due; nil if nothing changes.
func (ms *messages) Requeue(r *store.Requeue, now time.Time) (change, error) {
	k, err := ms.parkedAs(markKey{Consumer: r.Consumer, Identity: r.Identity}, nil)
	if r.Dead && (err == nil && k.Dead == nil || errors.Is(err, store.ErrLost)) {
		return nil, nil
	}
	if err == nil {
		err = k.checkStillDead(r.DeadAt)
	}
	if err == nil && r.Attempts != nil && (k.Dead != nil || k.Attempts < *r.Attempts) {
		err = fmt.Errorf("%s is not parked any more with these attempts: %w", r.ID, store.ErrLost)
	}
	if err != nil {
		return nil, err
	}
	back := !k.holding()
	k.Dead, k.Attempts, k.Claims, k.CrashCount, k.due = nil, 0, 0, 0, time.Time{}
	if !k.First.At.IsZero() {
		k.First.At = now
	}
	return func(now time.Time) {
		if back {
			ms.stepBack(&k)
		}
		ms.rows[k.id()] = k
		ms.settle(k.keyLock(), now)
	}, nil
}

// LetGo makes a dead letter stop blocking its key, because its step is barred or undone.
func (ms *messages) LetGo(id markKey, now time.Time) {
	k := ms.rows[id]
	dead := *k.Dead
	dead.BlocksKey = false
	k.Dead = &dead
	ms.rows[id] = k
	ms.settle(k.keyLock(), now)
}
