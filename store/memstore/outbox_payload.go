package memstore

import (
	"maps"
	"slices"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// Payloads reads a sample of payloads: those of the newest rows and of the first deferred rows.
func (o *outboxTable) Payloads() (out []store.Payload) {
	all := 0
	add := func(m *skald.Message) {
		if m.Data == nil {
			return
		}
		bytes := len(m.Data)
		for _, h := range m.Headers {
			bytes += len(h.Name) + len(h.Value)
		}
		p := store.Payload{Message: skald.Message{ID: m.ID, Topic: m.Topic, Type: m.Type,
			ContentType: m.ContentType}}
		if bytes <= store.PayloadBytes {
			all += bytes
			if p.Read = all <= store.PayloadsAll; p.Read {
				whole := copyMessage(*m)
				p.Message.Data, p.Message.Headers = whole.Data, whole.Headers
			}
		}
		out = append(out, p)
	}
	newest := map[int64]bool{}
	for _, r := range slices.Backward(o.rows[max(0, len(o.rows)-store.PayloadRows):]) {
		newest[r.Seq] = true
		add(&r.Message)
	}
	left := store.PayloadRows
	for _, seq := range slices.Sorted(maps.Keys(o.deferred)) {
		if a := o.deferred[seq]; !newest[seq] && left > 0 {
			left--
			add(&a.Message)
		}
	}
	return out
}
