package audit

import (
	"context"
	"fmt"

	"github.com/skald-go/skald/examples/shop/table"
)

// Sagas counts the sagas of orders in an orchestrated shop.
type Sagas struct {
	Started     int `json:"started"`
	Done        int `json:"done"`
	Compensated int `json:"compensated"` // all effects of the order are undone
	Stuck       int `json:"stuck"`       // waiting for an operator
}

// CountSagas reads Order's database. The counts are 0 in a choreographed shop.
func CountSagas(ctx context.Context, databases map[string]table.DB) (Sagas, error) {
	r, err := newReader(ctx, databases)
	if err != nil {
		return Sagas{}, err
	}
	var s Sagas
	for _, one := range r.sagas() {
		s.Started++
		switch {
		case one.status == "done":
			s.Done++
		case one.status == "compensated":
			s.Compensated++
		case one.stuck:
			s.Stuck++
		}
	}
	if r.err != nil {
		return s, fmt.Errorf("count sagas: %w", r.err)
	}
	return s, nil
}

// saga is the state of an order's saga.
type saga struct {
	status string
	stuck  bool
}

func (r *reader) sagas() map[string]saga {
	out := map[string]saga{}
	r.each("order", "Sagas", func(row table.Row) error {
		var s saga
		var key string
		err := row.Scan(&key, &s.status, &s.stuck)
		r.share(&key, &s.status)
		out[key] = s
		return err
	})
	return out
}

func (r *reader) tracked() map[string]string {
	out := map[string]string{}
	r.each("order", "Tracked", func(row table.Row) error {
		var key, state string
		err := row.Scan(&key, &state)
		r.share(&key, &state)
		out[key] = state
		return err
	})
	return out
}

// sagasEnded checks that the saga of a confirmed order is done and that of a cancelled order is
// compensated. The tracked status of the order must agree. Sagas and statuses are deleted after a retention
// time.
func (b *books) sagasEnded(f *findings) {
	want := map[string]string{"confirmed": "done", "cancelled": "compensated"}
	for _, o := range b.orders {
		if state, known := b.tracked[o.id]; len(b.tracked) > 0 && o.ended() {
			f.hold(known && state == want[o.state], "order %s is %s, and its status is %q", o.id,
				o.state, state)
		}
	}
	for id, s := range b.sagas {
		o := b.byID[id]
		if o == nil {
			f.hold(false, "order %s does not exist, and has a saga that is %s", id, s.status)
			continue
		}
		f.hold(s.status == want[o.state] && !s.stuck, "order %s is %s, its saga %s (stuck: %t)", id, o.state,
			s.status, s.stuck)
	}
}
