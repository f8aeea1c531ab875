package memstore

import (
	"bytes"
	"slices"

	"github.com/skald-go/skald/store"
)

// Written lists matching rows among the newest rows, published and unpublished.
func (o *outboxTable) Written(q *store.WrittenQuery, limit int) (out []store.WrittenRow) {
	for _, r := range o.rows[max(0, len(o.rows)-store.WrittenScan):] {
		m := &r.Message
		if (q.About == "" || m.ID != q.About && m.CorrelationID != q.About && m.CausationID != q.About &&
			m.Subject != q.About) && !slices.Contains(q.Correlations, m.CorrelationID) &&
			(m.Key == nil ||
				!slices.ContainsFunc(q.Keys, func(key []byte) bool { return bytes.Equal(key, m.Key) })) {
			continue
		}
		out = append(out, store.WrittenRow{Seq: r.Seq, Identity: store.Identity{Source: m.Source, ID: m.ID},
			Topic: m.Topic, Type: m.Type, CorrelationID: m.CorrelationID, Written: m.Time})
	}
	return out[max(0, len(out)-limit):]
}

// Finished lists marks of several consumers.
func (ms *markTable) Finished(q *store.FinishedQuery, limit int) (out []store.Finished) {
	for _, consumer := range q.Consumers {
		for _, id := range q.IDs {
			if m, there := ms.rows[markKey{Consumer: consumer, Identity: id}]; there {
				out = append(out, store.Finished{Consumer: consumer, Identity: id, Outcome: m.Outcome,
					Reason: m.Reason, Code: m.Code, At: m.at})
			}
		}
	}
	slices.SortFunc(out, func(a, b store.Finished) int { return a.At.Compare(b.At) })
	return out[:min(len(out), limit)]
}
