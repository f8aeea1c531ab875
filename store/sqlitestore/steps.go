package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// steps lists steps.
func (s *Store) steps(ctx context.Context, q store.StepQuery) ([]store.StepRecord, error) {
	limit := cmp.Or(q.Limit, 1000)
	rows, err := s.run.Query(ctx, "ListSteps", q.Consumer, q.Saga, q.OutsideKey, int64(q.State), q.Dropped,
		limit, q.Sagas != nil, jsonList(q.Consumers), jsonList(q.Sagas))
	if err != nil {
		return nil, sqlexec.Failed("list steps", err)
	}
	out, err := sqlexec.Collect(rows, scanStep)
	return out, sqlexec.Failed("list steps", err)
}

func scanStep(scan func(...any) error) (s store.StepRecord, err error) {
	var result, outcome []byte
	var begun sql.NullInt64
	var at, changed int64
	err = scan(&s.Consumer, &s.Saga, &s.Name, &s.Occurrence, &s.State, &s.Dropped, &s.Source, &s.ID,
		&s.By.Source, &s.By.ID,
		&s.Code, &result, &s.OutsideKey, &outcome, &begun, &at, &changed)
	s.Result, s.Outcome = string(result), string(outcome)
	if s.At, s.Changed = time.UnixMilli(at).UTC(), time.UnixMilli(changed).UTC(); begun.Valid {
		s.Begun = time.UnixMilli(begun.Int64).UTC()
	}
	return s, err
}
