package sqlitestore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// Written lists rows of the outbox, published and unpublished, with one statement.
func (o *outboxTable) Written(ctx context.Context, q *store.WrittenQuery) ([]store.WrittenRow, error) {
	keys := make([]string, len(q.Keys))
	for i, key := range q.Keys {
		keys[i] = fmt.Sprintf("%X", key)
	}
	rows, err := o.run.Query(ctx, "ListWritten", q.About, jsonList(q.Correlations), jsonList(keys),
		cmp.Or(q.Limit, defaultLimit), store.WrittenScan)
	if err != nil {
		return nil, sqlexec.Failed("list written rows", err)
	}
	out, err := sqlexec.Collect(rows, func(scan func(...any) error) (w store.WrittenRow, err error) {
		var at int64
		err = scan(&w.Seq, &w.Source, &w.ID, &w.Topic, &w.Type, &w.CorrelationID, &at)
		w.Written = time.UnixMilli(at).UTC()
		return w, err
	})
	return out, sqlexec.Failed("list written rows", err)
}

// finished lists marks of several consumers with one statement.
func (s *Store) finished(ctx context.Context, q *store.FinishedQuery) ([]store.Finished, error) {
	ids := make([][2]string, len(q.IDs))
	for i, id := range q.IDs {
		ids[i] = [2]string{id.Source, id.ID}
	}
	rows, err := s.run.Query(ctx, "ListFinished", jsonList(q.Consumers), jsonList(ids),
		cmp.Or(q.Limit, defaultLimit))
	if err != nil {
		return nil, sqlexec.Failed("list finished messages", err)
	}
	out, err := sqlexec.Collect(rows, func(scan func(...any) error) (f store.Finished, err error) {
		var at int64
		err = scan(&f.Consumer, &f.Source, &f.ID, &f.Outcome, &f.Reason, &f.Code, &at)
		f.At = time.UnixMilli(at).UTC()
		return f, err
	})
	return out, sqlexec.Failed("list finished messages", err)
}

// jsonList returns list as JSON for json_each.
func jsonList[T any](list []T) string {
	if list == nil {
		return "[]"
	}
	text, _ := json.Marshal(list) // cannot fail for strings
	return string(text)
}
