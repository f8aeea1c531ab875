package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

// setAside is the call that keeps a full copy of a row: its outbox row may go.
func (c *core) setAside(a *store.Aside) call {
	var headers []byte
	if len(a.Headers) > 0 {
		headers = headersJSON(a.Headers)
	}
	return c.call("SetAside", a.Seq, int16(a.Bucket), a.ID, a.Source, a.Topic, a.Key, a.Type, a.Data, a.ContentType,
		some(a.Schema), some(a.Subject), some(a.CorrelationID), some(a.CausationID), some(a.TraceParent), headers, a.Time,
		int32(a.Attempts), clip(legible(a.Why)), a.Due.Microseconds())
}

func laneIDs(lanes []int) []int32 {
	out := make([]int32, len(lanes))
	for i, id := range lanes {
		out[i] = int32(id)
	}
	return out
}

// Held lists the keys that have rows set aside.
func (c *core) Held(ctx context.Context, lanes []int) ([]store.Held, error) {
	var out []store.Held
	held := c.call("Held", laneIDs(lanes))
	held.scan = func(row scanner) error {
		var h store.Held
		err := row.Scan(&h.Topic, &h.Key, &h.Lane)
		out = append(out, h)
		return err
	}
	return out, c.short(ctx, "held keys", held)
}

// Retry reads rows that were set aside and are due.
func (c *core) Retry(ctx context.Context, lanes []int, limit int) ([]store.Aside, error) {
	var out []store.Aside
	retry := c.call("Retry", laneIDs(lanes), int32(limit))
	retry.scan = func(row scanner) error {
		a, err := scanAside(row)
		out = append(out, a)
		return err
	}
	return out, c.short(ctx, "rows set aside", retry)
}

func scanAside(row scanner) (a store.Aside, err error) {
	var schema, subject, correlation, cause, trace *string
	var headers []byte
	var at time.Time
	err = row.Scan(&a.Seq, &a.Bucket, &a.ID, &a.Source, &a.Topic, &a.Key, &a.Type, &a.Data, &a.ContentType,
		&schema, &subject, &correlation, &cause, &trace, &headers, &at, &a.Attempts, &a.Why)
	if err != nil {
		return a, err
	}
	a.Time = at.UTC()
	a.Schema, a.Subject, a.CorrelationID, a.CausationID, a.TraceParent = or(schema), or(subject), or(correlation), or(cause), or(trace)
	if a.Headers, err = parseHeaders(headers); err != nil {
		return a, fmt.Errorf("row %d: %w", a.Seq, err)
	}
	return a, nil
}

func or(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
