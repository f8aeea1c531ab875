// This file is what operators did, in memory.

package memstore

import (
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// A log is all that operators did, in order.
type log struct{ rows []store.Audit }

// Note writes down what an operator does.
func (l *log) Note(a store.Audit, now time.Time) {
	a.Number, a.At = int64(len(l.rows)+1), now
	l.rows = append(l.rows, a)
}

// List lists what belongs to a run, in order, or all, the latest first.
func (l *log) List(q *store.AuditQuery, limit int) (out []store.Audit) {
	if q.Run != "" {
		for _, a := range l.rows {
			if a.Run == q.Run && a.Number > q.After && len(out) < limit {
				out = append(out, a)
			}
		}
		return out
	}
	for _, a := range slices.Backward(l.rows) {
		if (q.Before == 0 || a.Number < q.Before) && len(out) < limit {
			out = append(out, a)
		}
	}
	return out
}

// Rows is all of it, in order.
func (l *log) Rows() []store.Audit { return slices.Clone(l.rows) }
