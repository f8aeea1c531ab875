package sqlitestore

import (
	"context"
	"database/sql"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// Payloads reads a sample of payloads: the newest rows of the outbox and the first deferred rows.
func (o *outboxTable) Payloads(ctx context.Context) ([]store.Payload, error) {
	rows, err := o.run.Query(ctx, "ListPayloads", store.PayloadRows, store.PayloadBytes, store.PayloadsAll)
	if err != nil {
		return nil, sqlexec.Failed("list payloads", err)
	}
	out, err := sqlexec.Collect(rows, func(scan func(...any) error) (p store.Payload, err error) {
		var data, headers sql.NullString
		var raw sql.Null[[]byte]
		m := &p.Message
		if err := scan(&m.ID, &m.Topic, &m.Type, &m.ContentType, &p.Read, &data, &raw,
			&headers); err != nil || !p.Read {
			return p, err
		}
		m.Data = sqlexec.Join(data, raw)
		if m.Headers, err = sqlexec.ReadHeaders(headers); err != nil { // not an error of the whole sample
			p.Read = false
		}
		return p, nil
	})
	return out, sqlexec.Failed("list payloads", err)
}
