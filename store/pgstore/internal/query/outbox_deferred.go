package query

import (
	"context"
	"errors"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// setAside returns the calls that defer a row of the outbox. They store a full copy, because retention may
// delete the row in the outbox. If the row is unreadable, they copy it inside the database. If the row is
// already deferred, they only store the new attempt.
func (o *Outbox) setAside(a *store.DeferredRow) []sqlexec.Call {
	state := []any{a.Seq, int32(a.Attempts), column.ClipReason(sqlexec.StorableText(a.Why)),
		a.Due.Microseconds()}
	switch {
	case a.Attempts > 1: // the row is already deferred, or an operator dropped it
		return []sqlexec.Call{o.pg.Call("PutOffDeferred", state...)}
	case a.Fault != "":
		return []sqlexec.Call{o.pg.Call("DeferUnread", state...), o.pg.Call("PutOffDeferred", state...)}
	}
	var headers []byte
	if len(a.Headers) > 0 {
		headers = headersJSON(a.Headers)
	}
	var size, hash any
	if a.Large != nil {
		size, hash = a.Large.Bytes, a.Large.SHA256
	}
	return []sqlexec.Call{o.pg.Call("Defer", a.Seq, int16(a.Bucket), a.ID, a.Source, a.Topic, a.Key, a.Type,
		a.Data, a.ContentType,
		sqlexec.Some(a.Schema), sqlexec.Some(a.Subject), sqlexec.Some(a.CorrelationID),
		sqlexec.Some(a.CausationID), sqlexec.Some(a.TraceParent), headers, a.Time,
		int32(a.Attempts), column.ClipReason(sqlexec.StorableText(a.Why)), a.Due.Microseconds(), size, hash)}
}

func shardIDs(shards []int) []int32 {
	out := make([]int32, len(shards))
	for i, id := range shards {
		out[i] = int32(id)
	}
	return out
}

// Deferred reads the rows that the broker refused, and the rows that wait for them.
func (o *Outbox) Deferred(ctx context.Context, q store.DeferredQuery) (out store.Deferred, err error) {
	if q.Keys {
		out.Keys, err = o.deferredKeys(ctx, q.Shards)
	}
	if err == nil && q.Due > 0 {
		out.Due, err = o.dueRows(ctx, q.Shards, q.Due)
	}
	return out, err
}

// deferredKeys lists the keys with deferred rows.
func (o *Outbox) deferredKeys(ctx context.Context, shards []int) ([]store.DeferredKey, error) {
	var out []store.DeferredKey
	held := o.pg.Call("Held", shardIDs(shards))
	held.Scan = func(row sqlexec.Scanner) error {
		var h store.DeferredKey
		err := row.Scan(&h.Topic, &h.Key, &h.Shard)
		out = append(out, h)
		return err
	}
	return out, o.pg.Short(ctx, "read held keys", held)
}

// dueRows reads deferred rows that are due.
func (o *Outbox) dueRows(ctx context.Context, shards []int, limit int) ([]store.DeferredRow, error) {
	var out []store.DeferredRow
	retry := o.pg.Call("Retry", shardIDs(shards), int32(limit))
	retry.Scan = func(row sqlexec.Scanner) error {
		a, err := scanAside(row)
		out = append(out, a)
		return err
	}
	return out, o.pg.Short(ctx, "read deferred rows", retry)
}

func scanAside(row sqlexec.Scanner) (a store.DeferredRow, err error) {
	var schema, subject, correlation, cause, trace *string
	var headers []byte
	var at *int64
	var large *int64
	var hash *string
	err = row.Scan(&a.Seq, &a.Bucket, &a.ID, &a.Source, &a.Topic, &a.Key, &a.Type, &a.Data, &a.ContentType,
		&schema, &subject, &correlation, &cause, &trace, &headers, &at, &a.Attempts, &a.Why, &large, &hash)
	if err != nil {
		return a, err
	}
	if large != nil {
		a.Large = &store.Large{Bytes: *large, SHA256: sqlexec.OrEmpty(hash)}
	}
	a.Schema, a.Subject, a.CorrelationID, a.CausationID, a.TraceParent = sqlexec.OrEmpty(schema),
		sqlexec.OrEmpty(subject), sqlexec.OrEmpty(correlation), sqlexec.OrEmpty(cause), sqlexec.OrEmpty(trace)
	if a.Headers, err = parseHeaders(headers); at == nil {
		err = errors.New("its time is outside of the years 1 to 9999")
	} else {
		a.Time = time.UnixMicro(*at).UTC()
	}
	if a.Large == nil { // a large row has no content that could be wrong
		a.Fault = sqlexec.Fault(err)
	}
	return a, nil
}

// DropDeferred returns the calls that delete a deferred row.
func (o *Outbox) DropDeferred(id string) []sqlexec.Call {
	return []sqlexec.Call{o.pg.Call("LockDeferred", sqlexec.StorableText(id)),
		o.pg.Call("DropDeferred", sqlexec.StorableText(id))}
}
