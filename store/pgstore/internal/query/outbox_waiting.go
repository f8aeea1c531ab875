package query

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Waiting lists unpublished rows of the outbox with one statement.
func (o *Outbox) Waiting(ctx context.Context, most int) (out []store.WaitingRow, err error) {
	list := o.pg.Call("ListWaiting", int32(most), int32(store.WaitingScan))
	list.Scan = func(row sqlexec.Scanner) error {
		var w store.WaitingRow
		var key sqlexec.Blob
		var at, age int64
		err := row.Scan(&w.Seq, &w.Shard, &w.ID, &w.Topic, &w.Type, &key, &at, &age, &w.Deferred, &w.Attempts,
			&w.LastError)
		w.Key, w.Written, w.Age = key, time.UnixMicro(at).UTC(), sqlexec.Past(age)
		out = append(out, w)
		return err
	}
	if err := o.pg.Short(ctx, "list waiting rows", o.pg.Call("PlanOnce"), list); err != nil {
		return nil, err
	}
	return out, nil
}
