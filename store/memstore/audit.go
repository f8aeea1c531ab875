package memstore

import (
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// log is the audit log: all actions of operators, in order.
type log struct{ rows []store.Audit }

// Note records an action of an operator.
func (l *log) Note(a store.Audit, now time.Time) {
	a.Number, a.At = int64(len(l.rows)+1), now
	l.rows = append(l.rows, a)
}

// List lists the actions of a run in order, or all actions, the newest first.
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

// Rows returns all actions, in order.
func (l *log) Rows() []store.Audit { return slices.Clone(l.rows) }
