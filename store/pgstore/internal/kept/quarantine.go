package kept

import (
	"context"
	"time"

	"github.com/skald-go/skald/internal/clip"
	"github.com/skald-go/skald/internal/held"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/column"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
)

// Quarantine are the calls for what e does with the quarantine.
func (c *Kept) Quarantine(e *store.Effect) (calls []pgrun.Call, err error) {
	if q := e.Quarantine; q != nil {
		text, err := held.Bare(&q.Message)
		if err != nil {
			return nil, err
		}
		calls = append(calls, c.pg.Call("Quarantine",
			append(apartArgs(q), int16(q.Why), clip.Reason(column.Legible(q.Message.Topic)),
				clip.Reason(column.Legible(q.Message.Type)), text, q.Message.Data)...))
	}
	if q := e.Admitted; q != nil {
		calls = append(calls, c.pg.Call("TakeAdmitted", apartArgs(q)...))
	}
	if a := e.Admit; a != nil {
		calls = append(calls, c.pg.Call("Admit", a.Number, column.Legible(a.By), column.Legible(a.Reason)))
	}
	return calls, nil
}

func apartArgs(q *store.Quarantined) []any {
	return []any{column.Name(q.Consumer), column.Name(q.Source), column.Name(q.ID), q.Fingerprint}
}

// Quarantined lists messages in quarantine.
func (c *Kept) Quarantined(ctx context.Context, q store.Query, most int) ([]store.Quarantined, error) {
	var out []store.Quarantined
	limit := int32(most)
	list := c.pg.Call("Quarantined", q.After, column.Name(q.Consumer), column.Name(q.ID),
		clip.Reason(column.Legible(q.Topic)), clip.Reason(column.Legible(q.Type)), int16(q.Why), q.Taken,
		q.Admitted, limit, q.Bare)
	if waiting := (store.Query{Consumer: q.Consumer, Admitted: true, After: q.After,
		Limit: q.Limit}); q == waiting && q.Consumer != "" {
		// by an index of its own: consumers ask for it all the time
		list = c.pg.Call("Admitted", q.After, column.Name(q.Consumer), limit)
	}
	list.Scan = func(row pgrun.Scanner) error {
		one, err := scanQuarantined(row)
		if err == nil {
			out = append(out, one)
		}
		return err
	}
	return out, c.pg.Short(ctx, "list quarantine", list)
}

func scanQuarantined(row pgrun.Scanner) (one store.Quarantined, err error) {
	var text string
	var data []byte
	var admitted, taken *time.Time
	err = row.Scan(&one.Number, &one.Consumer, &one.Source, &one.ID, &one.Fingerprint, &one.Why, &text,
		&one.At, &admitted, &one.By, &one.Reason, &taken,
		&data, &one.Bytes)
	if err != nil {
		return one, err
	}
	column.Handles(&one.Consumer, &one.Source, &one.ID)
	one.At, one.Admitted, one.Taken = one.At.UTC(), column.OrZero(admitted), column.OrZero(taken)
	one.Message, err = held.Decode(text)
	one.Message.Data = data
	return one, err
}
