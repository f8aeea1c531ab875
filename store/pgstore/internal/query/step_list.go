package query

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// List lists steps.
func (c *Steps) List(ctx context.Context, q store.StepQuery, most int) (out []store.StepRecord, err error) {
	limit := int32(most)
	list := c.pg.Call("ListSteps", sqlexec.Name(q.Consumer), sqlexec.Name(q.Saga),
		sqlexec.StorableText(q.OutsideKey),
		int16(q.State), q.Dropped, limit,
		q.Sagas != nil, convertAll(q.Consumers, sqlexec.Name), convertAll(q.Sagas, sqlexec.Name))
	list.Scan = func(row sqlexec.Scanner) error {
		var s store.StepRecord
		var result, outcome sqlexec.Blob
		var begun *time.Time
		err := row.Scan(&s.Consumer, &s.Saga, &s.Name, &s.Occurrence, &s.State, &s.Dropped, &s.Source, &s.ID,
			&s.By.Source, &s.By.ID,
			&s.Code, &result, &s.OutsideKey, &outcome, &begun, &s.At, &s.Changed)
		sqlexec.Handles(&s.Consumer, &s.Saga, &s.Name, &s.Occurrence, &s.Source, &s.ID, &s.By.Source,
			&s.By.ID)
		s.Result, s.Outcome = string(result), string(outcome)
		s.At, s.Changed, s.Begun = s.At.UTC(), s.Changed.UTC(), sqlexec.OrZero(begun)
		out = append(out, s)
		return err
	}
	if err := c.pg.Short(ctx, "list steps", list); err != nil {
		return nil, err
	}
	return out, nil
}
