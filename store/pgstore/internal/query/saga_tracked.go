package query

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// LockTracked returns the call that locks tracked sagas, creates missing ones, and reads them into rows. The
// keys are JSON, because some drivers of database/sql do not support arrays.
func (c *Sagas) LockTracked(flow string, keys []string) (list sqlexec.Call, rows *[]store.Tracked,
	err error) {
	text, err := json.Marshal(keys)
	if err = cmp.Or(c.pg.Err, err); err != nil {
		return list, nil, err
	}
	rows = new([]store.Tracked)
	list = c.pg.Call("LockTracked", flow, string(text))
	list.Scan = func(row sqlexec.Scanner) error {
		t := store.Tracked{Flow: flow}
		var due, drifted *time.Time
		err := row.Scan(&t.Key, &t.State, &due, &t.Drift, &t.Body, &t.At, &t.Changed, &drifted)
		*rows = append(*rows, dated(t, due, drifted))
		return err
	}
	return list, rows, nil
}

// SaveTracked returns the call that writes rows. LockTracked must have locked these rows.
func (c *Sagas) SaveTracked(rows []store.Tracked) ([]sqlexec.Call, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	type saved struct {
		Key   string     `json:"key"`
		Flow  string     `json:"flow"`
		State string     `json:"state"`
		Due   *time.Time `json:"due"`
		Drift int        `json:"drift"`
		Body  string     `json:"body"`
	}
	all := make([]saved, len(rows))
	for i := range rows {
		t := &rows[i]
		all[i] = saved{t.Key, t.Flow, t.State, nil, min(t.Drift, math.MaxInt32), t.Body}
		if !t.Due.IsZero() {
			all[i].Due = &t.Due
		}
	}
	text, err := json.Marshal(all)
	return []sqlexec.Call{c.pg.Call("SaveTracked", string(text))}, err
}

// ListTracked lists tracked sagas.
func (c *Sagas) ListTracked(ctx context.Context, q store.TrackedQuery,
	limit int) (out []store.Tracked, err error) {
	list := c.pg.Call("ListTracked", sqlexec.StorableText(q.Flow), sqlexec.StorableText(q.Key),
		sqlexec.StorableText(q.State),
		q.Overdue, int32(limit))
	list.Scan = func(row sqlexec.Scanner) error {
		var t store.Tracked
		var due, drifted *time.Time
		err := row.Scan(&t.Flow, &t.Key, &t.State, &due, &t.Drift, &t.Body, &t.At, &t.Changed, &drifted)
		out = append(out, dated(t, due, drifted))
		return err
	}
	if err := c.pg.Short(ctx, "list tracked sagas", list); err != nil {
		return nil, err
	}
	return out, nil
}

// dated returns t with its times in UTC.
func dated(t store.Tracked, due, drifted *time.Time) store.Tracked {
	t.At, t.Changed, t.Due, t.Drifted = t.At.UTC(), t.Changed.UTC(), sqlexec.OrZero(due),
		sqlexec.OrZero(drifted)
	return t
}

// trackedCounts returns the call that counts tracked sagas and adds the numbers to counts.
func (c *Sagas) trackedCounts(counts *[]store.TrackedCounts) sqlexec.Call {
	count := c.pg.Call("CountTracked")
	count.Scan = func(row sqlexec.Scanner) error {
		var n store.TrackedCounts
		err := row.Scan(&n.Flow, &n.Running, &n.Compensating, &n.Overdue, &n.OverdueKey, &n.Drifted,
			&n.DriftedKey)
		*counts = append(*counts, n)
		return err
	}
	return count
}
