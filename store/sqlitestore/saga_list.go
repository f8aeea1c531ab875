package sqlitestore

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// List lists sagas. It also returns the last examined saga if the limit Scan ended the list.
func (s *sagaTable) List(ctx context.Context, q store.SagaQuery,
	limit int) ([]store.Saga, *store.SagaRef, error) {
	statuses, after := "", store.SagaRef{}
	if len(q.Status) > 0 {
		text, err := json.Marshal(q.Status)
		if err != nil {
			return nil, nil, sqlexec.Failed("list sagas", err)
		}
		statuses = string(text)
	}
	if q.After != nil {
		after = *q.After
	}
	if sagarow.OnlyKey(&q) {
		name, args := "ListSagasOfKey", []any{q.Key, limit}
		if q.Name != "" {
			name, args = "FindSaga", []any{q.Name, q.Key}
		}
		rows, err := s.run.Query(ctx, name, args...)
		if err != nil {
			return nil, nil, sqlexec.Failed("list sagas", err)
		}
		out, err := sqlexec.Collect(rows, func(scan func(...any) error) (store.Saga, error) {
			one, err := scanSaga(scan)
			one.Read = time.Now().UTC()
			return one, err
		})
		return out, nil, sqlexec.Failed("list sagas", err)
	}
	rows, err := s.run.Query(ctx, "ListSagas", q.Light, q.Name, q.Key, q.ID, statuses, sagarow.Live(&q),
		q.Stuck,
		q.Paused, q.Failing,
		q.Step, q.Error, sqlexec.Millis(q.StartedBefore), sqlexec.Millis(q.StartedAfter), after.Name,
		after.Key, limit,
		cmp.Or(sagarow.Within(&q, limit), -1))
	if err != nil {
		return nil, nil, sqlexec.Failed("list sagas", err)
	}
	out := sagarow.Listing{Scan: q.Scan, Limit: limit}
	_, err = sqlexec.Collect(rows, func(scan func(...any) error) (none struct{}, err error) {
		n, meant := 0, false
		one, err := scanSaga(scan, &n, &meant)
		one.Read = time.Now().UTC()
		out.Add(&one, n, meant)
		return none, err
	})
	return out.List, out.To, sqlexec.Failed("list sagas", err)
}

// Count counts sagas that have not ended.
func (s *sagaTable) Count(ctx context.Context, b *store.Backlog) error {
	rows, err := s.run.Query(ctx, "CountSagas", sqlexec.Milliseconds(sagarow.Overdue),
		sqlexec.Milliseconds(sagarow.Left),
		sagarow.LeftToOthers)
	if err != nil {
		return sqlexec.Failed("count sagas", err)
	}
	b.Sagas, err = sqlexec.Collect(rows, func(scan func(...any) error) (n store.SagaCounts, err error) {
		var oldest, failing int64
		err = scan(&n.Name, &n.Running, &n.Compensating, &n.Stuck, &n.Paused, &n.Failing, &n.Overdue, &oldest,
			&failing)
		n.FailingFor = time.Duration(max(failing, 0)) * time.Millisecond
		n.Oldest = time.Duration(max(oldest, 0)) * time.Millisecond
		return n, err
	})
	if err == nil {
		b.Tracked, err = s.countTracked(ctx)
	}
	return sqlexec.Failed("count sagas", err)
}
