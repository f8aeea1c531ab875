package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// An OtherError refuses to start a saga under the key of another one.
type OtherError struct {
	Name, Key  string
	ID, Status string // of the one that is there
	Input      string // of it; "": it is not kept any more
	Refused    string // the input that was refused
}

func (e *OtherError) Error() string {
	return fmt.Sprintf("the saga %s %q was started with another input: %.200s (its id is %s, it is %s), and is started with %.200s: "+
		"take another key for another saga", e.Name, e.Key, cmp.Or(e.Input, "which is not kept any more"),
		e.ID, e.Status, e.Refused)
}

// Start writes a saga in tx, or finds the one that was started with the same input.
func (e *Engine[TTx]) Start(ctx context.Context, tx TTx, d *Definition,
	in any) (s store.Saga, fresh bool, err error) {
	fail := func(err error) (store.Saga, bool, error) { return s, false, fmt.Errorf("start a saga: %w", err) }
	if !e.book.Has(d) {
		return fail(fmt.Errorf("the engine does not know this definition of %s: give it to NewEngine",
			d.Name))
	}
	key, data, err := d.Encode(in)
	if err == nil {
		err = checkAddress(d.Name, key)
	}
	if err != nil {
		return fail(err)
	}
	s, fresh, err = e.start(ctx, tx, d, key, data, originOf(ctx), "")
	if err != nil {
		return fail(err)
	}
	if fresh {
		e.hand(s, d)
	}
	return s, fresh, nil
}

func originOf(ctx context.Context) sagarow.Origin {
	cause, _ := skald.Cause(ctx)
	return sagarow.Origin{Correlation: cmp.Or(cause.CorrelationID, cause.ID), Causation: cause.ID,
		Trace: cmp.Or(telemetry.TraceParent(ctx), cause.TraceParent)}
}

// firstVersion is that of the saga of an id. Nobody knows at first whether the start of a saga that is handed
// to a worker is committed: its writes name its version, which no other start of the key has. It has 52
// bits, so that it is exact in JSON.
func firstVersion(id string) int64 {
	return fingerprint.Of([]byte("version"), []byte(id))&(1<<52-1) | 1
}

// start inserts a saga. This session gets its lease if it runs and has room; otherwise the saga is due at
// once, for any engine. Instead is the id of an ended saga with the same key, which start replaces; ""
// replaces none.
func (e *Engine[TTx]) start(ctx context.Context, tx TTx, d *Definition, key string, in json.RawMessage,
	from sagarow.Origin, instead string) (s store.Saga, fresh bool, err error) {
	now := e.clock.Now()
	state, _ := d.Plan.Begin(e.o.NewID(now), now)
	s = store.Saga{Name: d.Name, Key: key, ID: state.ID, Hash: d.Hash, Input: string(in),
		Fingerprint: fingerprint.Of([]byte(d.Name), in), Version: firstVersion(state.ID),
		Instead: instead, Origin: from.Encode(), Standing: sagarow.NextStanding(store.Standing{}, state, now)}
	if err = d.Plan.Room(state); err == nil {
		s.State, err = sagarow.EncodeState(state)
	}
	if err != nil {
		return s, false, err
	}
	if e.running.Load() && e.inHand.Load() < int64(e.o.InHand) {
		s.Session, s.Lease = e.session, e.o.Lease
	}
	was, fresh, err := e.db.StartSaga(ctx, tx, s)
	if err != nil {
		return s, false, fmt.Errorf("the saga %s %q: %w", s.Name, s.Key, err)
	}
	if fresh {
		e.clock.Saw(was.Started)
		e.tally.Started(s.Name)
		return was, true, nil
	}
	if was.Fingerprint != s.Fingerprint {
		return was, false, &OtherError{Name: s.Name, Key: s.Key, ID: was.ID, Status: was.Status,
			Input: was.Input, Refused: s.Input}
	}
	return was, false, nil
}

// hand gives a saga that was started in this process to a worker. It is not visible before its caller
// commits.
func (e *Engine[TTx]) hand(s store.Saga, d *Definition) {
	if s.Session != e.session {
		e.kick()
		return
	}
	l, err := e.taken(s, d, plan.Graph{})
	if err != nil {
		return // it is claimed when its lease is over, and found out then
	}
	l.unseen = true
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case e.begun <- l:
		e.coming[refOf(s)] = true
	default:
	}
}

// kick has the engine look for what is due.
func (e *Engine[TTx]) kick() {
	select {
	case e.kicked <- struct{}{}:
	default:
	}
}
