package query

import (
	"context"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Quarantine returns the calls that apply the changes of e to the quarantine.
func (c *Parked) Quarantine(e *store.Effect) (calls []sqlexec.Call, err error) {
	if q := e.Quarantine; q != nil {
		text, err := column.EncodeBare(&q.Message)
		if err != nil {
			return nil, err
		}
		calls = append(calls, c.pg.Call("Quarantine",
			append(apartArgs(q), int16(q.Why), column.ClipReason(sqlexec.StorableText(q.Message.Topic)),
				column.ClipReason(sqlexec.StorableText(q.Message.Type)), text, q.Message.Data)...))
	}
	if q := e.Admitted; q != nil {
		calls = append(calls, c.pg.Call("TakeAdmitted", apartArgs(q)...))
	}
	if a := e.Admit; a != nil && a.Back {
		calls = append(calls, c.pg.Call("PutBack", a.Number, sqlexec.StorableText(a.By),
			sqlexec.StorableText(a.Reason)))
	} else if a != nil {
		calls = append(calls, c.pg.Call("Admit", a.Number, sqlexec.StorableText(a.By),
			sqlexec.StorableText(a.Reason)))
	}
	return calls, nil
}

func apartArgs(q *store.Quarantined) []any {
	return []any{sqlexec.Name(q.Consumer), sqlexec.Name(q.Source), sqlexec.Name(q.ID), q.Fingerprint}
}

// Quarantined lists messages in the quarantine.
func (c *Parked) Quarantined(ctx context.Context, q store.QuarantineQuery, most int) ([]store.Quarantined,
	error) {
	var out []store.Quarantined
	limit := int32(most)
	list := c.pg.Call("Quarantined", q.After, sqlexec.Name(q.Consumer), sqlexec.Name(q.ID),
		column.ClipReason(sqlexec.StorableText(q.Topic)), column.ClipReason(sqlexec.StorableText(q.Type)),
		int16(q.Why), q.Taken, q.Admitted, limit, q.Bare)
	if waiting := (store.QuarantineQuery{Consumer: q.Consumer, Admitted: true, After: q.After,
		Limit: q.Limit}); q == waiting && q.Consumer != "" {
		// Consumers read this list often, so it has its own index.
		list = c.pg.Call("Admitted", q.After, sqlexec.Name(q.Consumer), limit)
	}
	list.Scan = func(row sqlexec.Scanner) error {
		one, err := scanQuarantined(row)
		if err == nil {
			out = append(out, one)
		}
		return err
	}
	return out, c.pg.Short(ctx, "list quarantine", list)
}

func scanQuarantined(row sqlexec.Scanner) (one store.Quarantined, err error) {
	var text string
	var data []byte
	var admitted, taken *time.Time
	err = row.Scan(&one.Number, &one.Consumer, &one.Source, &one.ID, &one.Fingerprint, &one.Why, &text,
		&one.At, &admitted, &one.By, &one.Reason, &taken,
		&data, &one.Bytes)
	if err != nil {
		return one, err
	}
	sqlexec.Handles(&one.Consumer, &one.Source, &one.ID)
	one.At, one.Admitted, one.Taken = one.At.UTC(), sqlexec.OrZero(admitted), sqlexec.OrZero(taken)
	one.Message, err = column.DecodeMessage(text)
	one.Message.Data, one.Fault = data, sqlexec.Fault(err)
	return one, nil
}
