package pgstore

import (
	"cmp"
	"context"
	"time"

	"github.com/skald-go/skald/store"
)

// steps lists steps.
func (c *core) steps(ctx context.Context, q store.StepQuery) (out []store.StepRecord, err error) {
	limit := int32(cmp.Or(q.Limit, 1000))
	list := c.call("ListSteps", name(q.Consumer), name(q.Saga), legible(q.OutsideKey), int16(q.State), q.Dropped, limit)
	list.scan = func(row scanner) error {
		var s store.StepRecord
		var result, outcome blob
		var begun *time.Time
		err := row.Scan(&s.Consumer, &s.Saga, &s.Name, &s.Occurrence, &s.State, &s.Dropped, &s.Source, &s.ID, &s.By.Source, &s.By.ID,
			&s.Code, &result, &s.OutsideKey, &outcome, &begun, &s.At, &s.Changed)
		handles(&s.Consumer, &s.Saga, &s.Name, &s.Occurrence, &s.Source, &s.ID, &s.By.Source, &s.By.ID)
		if s.Result, s.Outcome, s.At, s.Changed = string(result), string(outcome), s.At.UTC(), s.Changed.UTC(); begun != nil {
			s.Begun = begun.UTC()
		}
		out = append(out, s)
		return err
	}
	if err := c.short(ctx, "list steps", list); err != nil {
		return nil, err
	}
	return out, nil
}
