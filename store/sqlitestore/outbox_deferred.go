package sqlitestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// setAside defers a row of the outbox. It stores a full copy, because retention may delete the row in the
// outbox. If the row is unreadable, setAside makes the copy inside the database. If the row is already
// deferred, setAside only stores the new attempt.
func setAside(ctx context.Context, x *sqlexec.Session, a *store.DeferredRow) error {
	if a.Fault != "" || a.Attempts > 1 {
		names := []string{"DeferUnread", "PutOffDeferred"}
		if a.Attempts > 1 { // the row is already deferred, or an operator dropped it
			names = names[1:]
		}
		for _, name := range names {
			if _, err := x.Exec(ctx, name, a.Seq, a.Bucket, a.Attempts, column.ClipReason(a.Why),
				sqlexec.Milliseconds(a.Due)); err != nil {
				return fmt.Errorf("defer row: %w", err)
			}
		}
		return nil
	}
	args, err := rowArgs(&a.Message, a.Bucket)
	if err != nil {
		return err
	}
	source, id, rest, bucket := args[0], args[1], args[2:len(args)-1], args[len(args)-1]
	all := append([]any{a.Seq, bucket, id, source}, rest...)
	all = append(all, a.Attempts, column.ClipReason(a.Why), sqlexec.Milliseconds(a.Due), nil, nil)
	if a.Large != nil {
		all[len(all)-2], all[len(all)-1] = a.Large.Bytes, a.Large.SHA256
	}
	if _, err := x.Exec(ctx, "Defer", all...); err != nil {
		return fmt.Errorf("defer row: %w", err)
	}
	return nil
}

// Deferred reads the rows that the broker refused, and the rows that wait for them.
func (o *outboxTable) Deferred(ctx context.Context, q store.DeferredQuery) (out store.Deferred, err error) {
	if q.Keys {
		out.Keys, err = o.deferredKeys(ctx, q.Shards)
	}
	if err == nil && q.Due > 0 {
		out.Due, err = o.dueRows(ctx, q.Shards, q.Due)
	}
	return out, err
}

// deferredKeys lists the keys with deferred rows.
func (o *outboxTable) deferredKeys(ctx context.Context, shards []int) ([]store.DeferredKey, error) {
	list, err := json.Marshal(shards)
	if err != nil {
		return nil, fmt.Errorf("held: %w", err)
	}
	rows, err := o.run.Query(ctx, "Held", string(list))
	if err != nil {
		return nil, sqlexec.Failed("held", err)
	}
	held, err := sqlexec.Collect(rows, func(scan func(...any) error) (h store.DeferredKey, err error) {
		err = scan(&h.Topic, &h.Key, &h.Shard)
		if h.Key == nil {
			h.Key = []byte{}
		}
		return h, err
	})
	if err != nil {
		return nil, sqlexec.Failed("held", err)
	}
	return held, nil
}

// dueRows reads deferred rows that are due.
func (o *outboxTable) dueRows(ctx context.Context, shards []int, limit int) (out []store.DeferredRow,
	err error) {
	list, err := json.Marshal(shards)
	if err != nil {
		return nil, fmt.Errorf("retry: %w", err)
	}
	rows, err := o.run.Query(ctx, "Retry", string(list), limit)
	if err != nil {
		return nil, sqlexec.Failed("retry", err)
	}
	defer func() {
		if err = errors.Join(err, rows.Close()); err != nil {
			out, err = nil, sqlexec.Failed("retry", err)
		}
	}()
	for bytes := 0; rows.Next(); {
		var a store.DeferredRow
		if a.Row, err = scanRow(rows, &a.Attempts, &a.Why); err != nil {
			return nil, err
		}
		if bytes += column.MessageBytes(&a.Message); bytes > store.PageBytes && len(out) > 0 {
			return out, nil
		}
		out = append(out, a)
	}
	return out, rows.Err()
}
