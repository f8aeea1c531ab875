package step

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/column"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
)

// List lists steps.
func (c *Steps) List(ctx context.Context, q store.StepQuery, most int) (out []store.StepRecord, err error) {
	limit := int32(most)
	list := c.pg.Call("ListSteps", column.Name(q.Consumer), column.Name(q.Saga), column.Legible(q.OutsideKey),
		int16(q.State), q.Dropped, limit)
	list.Scan = func(row pgrun.Scanner) error {
		var s store.StepRecord
		var result, outcome column.Blob
		var begun *time.Time
		err := row.Scan(&s.Consumer, &s.Saga, &s.Name, &s.Occurrence, &s.State, &s.Dropped, &s.Source, &s.ID,
			&s.By.Source, &s.By.ID,
			&s.Code, &result, &s.OutsideKey, &outcome, &begun, &s.At, &s.Changed)
		column.Handles(&s.Consumer, &s.Saga, &s.Name, &s.Occurrence, &s.Source, &s.ID, &s.By.Source, &s.By.ID)
		s.Result, s.Outcome = string(result), string(outcome)
		s.At, s.Changed, s.Begun = s.At.UTC(), s.Changed.UTC(), column.OrZero(begun)
		out = append(out, s)
		return err
	}
	if err := c.pg.Short(ctx, "list steps", list); err != nil {
		return nil, err
	}
	return out, nil
}
