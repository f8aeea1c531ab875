package service_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/flow"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// A tracker reports for each order what the shop's own database has: while orders are in progress, at the
// end, and after a rebuild from the messages in the broker.
func TestTrackedShop(t *testing.T) {
	b := bus(t)
	s := shopOver(t, b, nil, func(d store.Driver[*sql.Tx]) store.Driver[*sql.Tx] { return d })
	placing, err := event.New("").Placing()
	if err != nil {
		t.Fatal(err)
	}
	db := memstore.New(nil)
	track := func(group string) *inbox.Inbox[*memstore.Tx] {
		in := inbox.New(db, b.Client(), group, nil)
		flow.NewTracker(placing, db,
			&flow.Options{Key: func(m skald.Message) string { return string(m.Key) }}).On(in)
		return in
	}
	in := track("beside")
	s.works = true
	s.place(1, 40)
	quiet(t, in)
	s.agrees(db, false)
	s.works = false
	s.place(2, 60)
	quiet(t, append([]skald.Stepper{in}, s.work...)...)
	if states := s.agrees(db, true); states[flow.Done] == 0 || states[flow.Compensated] == 0 {
		t.Errorf("only %v", states)
	}
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	quiet(t, track("another")) // it receives all messages again, into the same rows
	s.agrees(db, true)
}

// agrees compares the tracker's state with the orders.
func (s *shop) agrees(db store.Lister, ended bool) map[string]int {
	s.t.Helper()
	states := map[string]int{}
	err := table.All(s.t.Context(), table.SQL(s.dbs["order"]), "SELECT id, state FROM orders", nil,
		func(row table.Row) error {
			var id, state string
			if err := row.Scan(&id, &state); err != nil {
				return err
			}
			want := map[order.State]string{order.Confirmed: flow.Done,
				order.Cancelled: flow.Compensated}[order.State(state)]
			found, err := flow.Find(context.Background(), db, id)
			if !ended && errors.Is(err, flow.ErrUnknown) {
				return nil
			}
			if err != nil {
				return err
			}
			f := found[0]
			// The tracker may be behind while orders are in progress; it is never ahead.
			if over := f.State == flow.Done || f.State == flow.Compensated; len(f.Drift) > 0 || ended &&
				f.State != want || !ended && over && f.State != want {
				s.t.Errorf("order %s is %s, and its saga is %s: %v, waits for %v, misses %v, drift %v", id,
					state, f.State, f.Steps, f.Waiting, f.Missing, f.Drift)
			}
			states[f.State]++
			return nil
		})
	if err != nil {
		s.t.Fatal(err)
	}
	return states
}
