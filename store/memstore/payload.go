package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// payloads reads what rows of the outbox carry.
func (s *Store) payloads(ctx context.Context) (out []store.Payload, err error) {
	err = s.enter(ctx, func() error {
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
					whole := copied(*m)
					p.Message.Data, p.Message.Headers = whole.Data, whole.Headers
				}
			}
			out = append(out, p)
		}
		rows, newest := s.db.rows, map[int64]bool{}
		for _, r := range slices.Backward(rows[max(0, len(rows)-store.PayloadRows):]) {
			newest[r.Seq] = true
			add(&r.Message)
		}
		aside := slices.DeleteFunc(slices.Collect(maps.Values(s.db.aside)),
			func(a asideRow) bool { return newest[a.Seq] })
		slices.SortFunc(aside, func(a, b asideRow) int { return cmp.Compare(a.Seq, b.Seq) })
		for _, a := range aside[:min(len(aside), store.PayloadRows)] {
			add(&a.Message)
		}
		return nil
	})
	return out, err
}
