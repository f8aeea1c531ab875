// This file starts many sagas in one statement. Starts without a caller's transaction share a commit.

package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// startWait limits the time for which a shared commit of starts waits for locks. After this time each start
// gets its own commit.
const startWait = 50 * time.Millisecond

// starting is a start of a saga and its result.
type starting struct {
	def   *Definition
	row   store.Saga
	fresh bool
	err   error
	done  chan struct{} // closed after a start without a caller's transaction
}

// prepare encodes an input, and returns a start with the row of the new saga.
func (e *Engine[TTx]) prepare(ctx context.Context, d *Definition, in any) (*starting, error) {
	if !e.book.Has(d) {
		return nil, fmt.Errorf("start a saga: the engine does not have this definition of %s: "+
			"give it to NewEngine", d.Name)
	}
	key, data, err := d.Encode(in)
	if err == nil {
		err = checkAddress(d.Name, key)
	}
	var row store.Saga
	if err == nil {
		row, err = e.newRow(d, key, data, originOf(ctx), "")
	}
	if err != nil {
		return nil, fmt.Errorf("start a saga: %w", err)
	}
	return &starting{def: d, row: row}, nil
}

// StartAll inserts sagas in tx by one statement. For a key that has a saga with the same input it returns
// that saga. After an error the caller must roll back.
func (e *Engine[TTx]) StartAll(ctx context.Context, tx TTx, d *Definition,
	ins []any) ([]store.Saga, []bool, error) {
	all := make([]*starting, len(ins))
	for i, in := range ins {
		var err error
		if all[i], err = e.prepare(ctx, d, in); err != nil {
			return nil, nil, fmt.Errorf("input %d of %d: %w", i+1, len(ins), err)
		}
	}
	if err := e.startIn(ctx, tx, all); err != nil {
		return nil, nil, err
	}
	stored, fresh := make([]store.Saga, len(all)), make([]bool, len(all))
	for i, one := range all {
		if one.err != nil {
			return nil, nil, fmt.Errorf("input %d of %d: %w", i+1, len(all), one.err)
		}
		stored[i], fresh[i] = one.row, one.fresh
	}
	for _, one := range all {
		if one.fresh {
			e.handToLoop(one.row, one.def, true)
		}
	}
	return stored, fresh, nil
}

// startIn inserts sagas in tx. This session leases as many of them as it has room for.
func (e *Engine[TTx]) startIn(ctx context.Context, tx TTx, all []*starting) error {
	rows := make([]store.Saga, len(all))
	room := e.o.MaxSagas - int(e.inHand.Load()) - len(e.begun)
	for i, one := range all {
		rows[i] = one.row
		if e.running.Load() && i < room {
			rows[i].Session, rows[i].Lease = e.session, e.o.Lease
		}
	}
	stored, fresh, err := e.db.StartSagas(ctx, tx, rows...)
	if err != nil {
		return fmt.Errorf("start sagas: %w", err)
	}
	for i, one := range all {
		was := one.row
		one.row, one.fresh, one.err = stored[i], fresh[i], nil
		if one.fresh {
			e.clock.Observed(one.row.Started)
			e.tally.Started(one.row.Name)
		} else if one.row.Fingerprint != was.Fingerprint {
			one.err = otherError(one.row, was)
		}
	}
	return nil
}

// StartNow starts a saga in a transaction of the engine, which other starts may share. After an error the
// saga may have started. A second call with the same input finds it.
func (e *Engine[TTx]) StartNow(ctx context.Context, d *Definition, in any) (store.Saga, bool, error) {
	one, err := e.prepare(ctx, d, in)
	if err != nil {
		return store.Saga{}, false, err
	}
	if e.straight {
		e.startTogether(ctx, []*starting{one}, 0)
		return one.row, one.fresh, one.err
	}
	one.done = make(chan struct{})
	if e.starts.add(one) {
		go e.commitStarts(context.WithoutCancel(ctx))
	}
	select {
	case <-one.done:
		return one.row, one.fresh, one.err
	case <-ctx.Done():
		return store.Saga{}, false, fmt.Errorf("start a saga: %w", ctx.Err())
	}
}

// commitStarts commits starts until none is waiting. After an error of a shared commit, each of its starts
// gets its own commit in the background. Later starts do not wait for that.
func (e *Engine[TTx]) commitStarts(ctx context.Context) {
	size := func(one *starting) int { return len(one.row.Input) + len(one.row.State) }
	for all := e.starts.take(size); len(all) > 0; all = e.starts.take(size) {
		if !e.startTogether(ctx, all, startWait) {
			go e.startApart(ctx, all)
			continue
		}
		for _, one := range all {
			close(one.done)
		}
	}
}

// startApart starts each saga in its own commit.
func (e *Engine[TTx]) startApart(ctx context.Context, all []*starting) {
	var each sync.WaitGroup
	places := make(chan struct{}, e.o.Workers)
	for _, one := range all {
		places <- struct{}{}
		each.Go(func() {
			defer func() { <-places }()
			e.startTogether(ctx, []*starting{one}, 0)
			close(one.done)
		})
	}
	each.Wait()
}

// startTogether starts a batch of sagas in one commit. It returns false if one of them may be the reason
// for an error, and true if all have a result.
func (e *Engine[TTx]) startTogether(ctx context.Context, batch []*starting, wait time.Duration) bool {
	within, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	before := make([]store.Saga, len(batch))
	for i, one := range batch {
		before[i] = one.row
	}
	u, err := e.db.Begin(within, store.Intake{Wait: wait})
	if err == nil {
		if err = e.startIn(within, u.Tx(), batch); err != nil {
			_, _ = u.Rollback(within)
		} else {
			err = u.Commit(within)
		}
	}
	for i, one := range batch {
		switch {
		case err != nil:
			one.row, one.fresh, one.err = before[i], false, fmt.Errorf("start a saga: %w", err)
		case one.fresh:
			e.handToLoop(one.row, one.def, false)
		}
	}
	if err != nil && e.db.Outage(err) {
		_, up := e.databaseUp()
		return !up
	}
	return err == nil
}

func otherError(was, refused store.Saga) error {
	return &OtherError{Name: was.Name, Key: was.Key, ID: was.ID, Status: was.Status, Input: was.Input,
		Refused: refused.Input}
}

// newRow returns the row of a saga that begins now, without a lease. The argument instead is the id of an
// ended saga of the same key which the new saga replaces, or "".
func (e *Engine[TTx]) newRow(d *Definition, key string, in json.RawMessage, from sagarow.Origin,
	instead string) (s store.Saga, err error) {
	now := e.clock.Now()
	state, _ := d.Plan.Begin(e.o.NewID(now), now)
	s = store.Saga{Name: d.Name, Key: key, ID: state.ID, Hash: d.Hash, Input: string(in),
		Fingerprint: fingerprintOf(d, in), Version: firstVersion(state.ID),
		Instead: instead, Origin: from.Encode(), SagaStatus: sagarow.NextStatus(store.SagaStatus{}, state,
			now)}
	if err = d.Plan.Room(state); err == nil {
		s.State, err = sagarow.EncodeState(state)
	}
	return s, err
}
