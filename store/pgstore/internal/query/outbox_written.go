package query

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Written lists rows of the outbox, published and unpublished, with one statement.
func (o *Outbox) Written(ctx context.Context, q *store.WrittenQuery, most int) (out []store.WrittenRow,
	err error) {
	keys := make([]string, len(q.Keys))
	for i, key := range q.Keys {
		keys[i] = hex.EncodeToString(key)
	}
	list := o.pg.Call("ListWritten", sqlexec.StorableText(q.About),
		convertAll(q.Correlations, sqlexec.StorableText), keys,
		int32(most), int32(store.WrittenScan))
	list.Scan = func(row sqlexec.Scanner) error {
		var w store.WrittenRow
		var at int64
		err := row.Scan(&w.Seq, &w.Source, &w.ID, &w.Topic, &w.Type, &w.CorrelationID, &at)
		w.Written = time.UnixMicro(at).UTC()
		out = append(out, w)
		return err
	}
	if err := o.pg.Short(ctx, "list written rows", o.pg.Call("PlanOnce"), list); err != nil {
		return nil, err
	}
	return out, nil
}

// Finished lists marks of several consumers with one statement.
func (c *Marks) Finished(ctx context.Context, q *store.FinishedQuery, most int) (out []store.Finished,
	err error) {
	var ids sqlexec.Identities
	for i, id := range q.IDs {
		ids.Add(id, i)
	}
	list := c.pg.Call("ListFinished", convertAll(q.Consumers, sqlexec.Name), ids.Sources, ids.IDs,
		int32(most))
	list.Scan = func(row sqlexec.Scanner) error {
		var f store.Finished
		err := row.Scan(&f.Consumer, &f.Source, &f.ID, &f.Outcome, &f.Reason, &f.Code, &f.At)
		sqlexec.Handles(&f.Consumer, &f.Source, &f.ID)
		f.At = f.At.UTC()
		out = append(out, f)
		return err
	}
	if err := c.pg.Short(ctx, "list finished messages", c.pg.Call("PlanOnce"), list); err != nil {
		return nil, err
	}
	return out, nil
}

func convertAll(names []string, as func(string) string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = as(name)
	}
	return out
}
