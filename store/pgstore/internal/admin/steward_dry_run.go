package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// forecast counts the rows that maintain would delete.
func (s *Steward) forecast(ctx context.Context, keep store.Retention) (store.Maintained, error) {
	keep, err := retention.OrDefaults(keep)
	if err != nil {
		return store.Maintained{}, fmt.Errorf("forecast: %w", err)
	}
	k, err := s.newRun(ctx, keep)
	if err != nil {
		return store.Maintained{}, err
	}
	for _, n := range k.oldRows() {
		text := s.pg.RowTexts(n)
		if err := s.noteLeft(s.count(ctx, text["CountRows"], &k.done.Rows, s.covered(text)),
			sqlexec.RowLeaf(n),
			&k.done); err != nil {
			return store.Maintained{}, err
		}
	}
	rest := s.pg.Call("CountRest", k.Marks.Microseconds(),
		k.Now.Add(-max(k.Steps, leastSteps)).Truncate(time.Millisecond), k.Sagas.Microseconds(),
		leastMarks.Microseconds())
	if err := s.pg.Short(ctx, "count what is old",
		rest.Into(&k.done.Marks, &k.done.Steps, &k.done.Sagas)); err != nil {
		return store.Maintained{}, err
	}
	return k.done, nil
}

// count adds the number of rows in a leaf to sum. If the call guard fails, count returns its error.
func (s *Steward) count(ctx context.Context, what string, sum *int64, guard sqlexec.Call) error {
	var n int64
	if err := s.pg.Short(ctx, "count leaf", guard, sqlexec.Call{SQL: what}.Into(&n)); err != nil {
		return err
	}
	*sum += n
	return nil
}
