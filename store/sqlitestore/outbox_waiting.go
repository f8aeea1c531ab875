package sqlitestore

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// Waiting lists unpublished rows of the outbox.
func (o *outboxTable) Waiting(ctx context.Context, most int) ([]store.WaitingRow, error) {
	rows, err := o.run.Query(ctx, "ListWaiting", most, store.WaitingScan)
	if err != nil {
		return nil, sqlexec.Failed("list waiting rows", err)
	}
	out, err := sqlexec.Collect(rows, func(scan func(...any) error) (w store.WaitingRow, err error) {
		var at, age int64
		err = scan(&w.Seq, &w.Shard, &w.ID, &w.Topic, &w.Type, &w.Key, &at, &age, &w.Deferred, &w.Attempts,
			&w.LastError)
		w.Written, w.Age = time.UnixMilli(at).UTC(), sqlexec.Past(age)
		return w, err
	})
	return out, sqlexec.Failed("list waiting rows", err)
}
