package query

import (
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Payloads reads a sample of payloads: the newest rows of the outbox and the first deferred rows.
func (o *Outbox) Payloads(ctx context.Context) (out []store.Payload, err error) {
	list := o.pg.Call("ListPayloads", int32(store.PayloadRows), int64(store.PayloadBytes),
		int64(store.PayloadsAll))
	list.Scan = func(row sqlexec.Scanner) error {
		var p store.Payload
		var headers []byte
		m := &p.Message
		if err := row.Scan(&m.ID, &m.Topic, &m.Type, &m.ContentType, &p.Read, &m.Data, &headers); err != nil {
			return err
		}
		var err error
		if m.Headers, err = parseHeaders(headers); err != nil { // concerns this row only
			p.Read = false
		}
		out = append(out, p)
		return nil
	}
	return out, o.pg.Short(ctx, "list payloads", list)
}
