package engine

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// OtherError is the error of a start if the key already has a saga with another input.
type OtherError struct {
	Name, Key  string
	ID, Status string // of the existing saga
	Input      string // of the existing saga; "" if it was deleted
	Refused    string // the input that was refused
}

func (e *OtherError) Error() string {
	return fmt.Sprintf("the saga %s %q was started with another input: %.200s (its id is %s, it is %s), and is now started with %.200s: "+
		"use another key for another saga", e.Name, e.Key, cmp.Or(e.Input, "which was deleted"),
		e.ID, e.Status, e.Refused)
}

// Start inserts a saga in tx. If the key has a saga with the same input, it returns that saga and
// fresh=false. If the input differs, it returns an *OtherError.
func (e *Engine[TTx]) Start(ctx context.Context, tx TTx, d *Definition,
	in any) (s store.Saga, fresh bool, err error) {
	fail := func(err error) (store.Saga, bool, error) { return s, false, fmt.Errorf("start a saga: %w", err) }
	one, err := e.prepare(ctx, d, in)
	if err != nil {
		return s, false, err
	}
	if s, fresh, err = e.start(ctx, tx, one.row); err != nil {
		return fail(err)
	}
	if fresh {
		e.handToLoop(s, d, true)
	}
	return s, fresh, nil
}

func originOf(ctx context.Context) sagarow.Origin {
	cause, _ := skald.Cause(ctx)
	return sagarow.Origin{Correlation: cmp.Or(cause.CorrelationID, cause.ID), Causation: cause.ID,
		Trace: cmp.Or(telemetry.TraceParent(ctx), cause.TraceParent)}
}

func fingerprintOf(d *Definition, in []byte) int64 { return fingerprint.Of([]byte(d.Name), in) }

// firstVersion returns the version of a new saga, derived from the saga's id. A worker may get a saga whose
// start is rolled back later. The worker's writes then name a version that no other start of the key has. The
// version has 52 bits, so that it is exact in JSON.
func firstVersion(id string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return int64(h.Sum64()>>12) | 1
}

// start inserts a saga. If the engine runs and has room, this session gets the lease. Otherwise any engine
// may claim the saga immediately.
func (e *Engine[TTx]) start(ctx context.Context, tx TTx, s store.Saga) (stored store.Saga, fresh bool,
	err error) {
	if e.running.Load() && e.inHand.Load() < int64(e.o.MaxSagas) {
		s.Session, s.Lease = e.session, e.o.Lease
	}
	started, isFresh, err := e.db.StartSagas(ctx, tx, s)
	if err != nil {
		return s, false, fmt.Errorf("the saga %s %q: %w", s.Name, s.Key, err)
	}
	was := started[0]
	if isFresh[0] {
		e.clock.Observed(was.Started)
		e.tally.Started(s.Name)
		return was, true, nil
	}
	if was.Fingerprint != s.Fingerprint {
		return was, false, otherError(was, s)
	}
	return was, false, nil
}

// handToLoop passes a saga that was started in this process to the loop. If uncommitted is true, the
// caller's transaction may not be committed yet.
func (e *Engine[TTx]) handToLoop(s store.Saga, d *Definition, uncommitted bool) {
	if s.Session != e.session {
		e.kick()
		return
	}
	l, err := e.newLive(s, d, plan.Graph{})
	if err != nil {
		return // the next claim of the saga, after its lease, reports the error
	}
	l.unseen = uncommitted
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case e.begun <- l:
		e.arriving[refOf(s)] = true
	default:
	}
}

// kick triggers a poll for due sagas.
func (e *Engine[TTx]) kick() {
	select {
	case e.kicked <- struct{}{}:
	default:
	}
}
