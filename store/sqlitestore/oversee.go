package sqlitestore

import (
	"context"
	"errors"
	"time"

	"github.com/skald-go/skald/store"
)

// own takes, renews or gives back the lease on what.
func (s *Store) own(ctx context.Context, what, owner string, ttl time.Duration) (bool, error) {
	x, err := s.begin(ctx, s.wait, defaultHandle)
	if err != nil {
		return false, failed("take "+what, err)
	}
	var n int64
	if ttl <= 0 {
		_, err = x.count(quiet(ctx), "Disown", what, owner)
	} else {
		n, err = x.count(quiet(ctx), "Own", what, owner, ttl.Milliseconds())
	}
	if err != nil {
		err = x.why(err)
		return false, failed("take "+what, errors.Join(err, x.close()))
	}
	defer x.end()
	x.timer.Stop()
	if err := x.commit(); err != nil {
		return false, failed("take "+what, err)
	}
	return n > 0, nil
}

// keeps tells what retention Maintain last went by.
func (s *Store) keeps(ctx context.Context) (store.Retention, error) {
	p, err := s.prepare(ctx)
	if err != nil {
		return store.Retention{}, failed("look at retention", err)
	}
	var rows, marks, steps, sagas int64 // milliseconds
	if err := p.stmts["Keeps"].QueryRowContext(ctx).Scan(&rows, &marks, &steps, &sagas); err != nil {
		return store.Retention{}, failed("look at retention", err)
	}
	of := func(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
	return store.Retention{Outbox: of(rows), Marks: of(marks), Steps: of(steps), Sagas: of(sagas)}, nil
}
