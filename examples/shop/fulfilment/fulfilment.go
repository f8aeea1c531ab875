// Package fulfilment is the service that gives an order's goods to a carrier, which refuses some goods.
// Until then the customer may cancel the order, or change its address for a fee: one row decides which came
// first.
package fulfilment

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/journal"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store"
)

var (
	//go:embed sql/schema.sql
	schema string
	//go:embed sql/query
	queries embed.FS
)

// ErrStopped refuses the goods of an order that its customer has cancelled.
var ErrStopped = errors.New("the order was cancelled before its parcel left")

// States of a parcel.
const (
	open    = "open"  // it can be stopped
	ready   = "ready" // it can be stopped, and leaves when its changes are paid
	gone    = "gone"
	stopped = "stopped"
)

// Options of a Fulfilment service. The zero value works.
type Options struct {
	Outbox   *outbox.Options  // default: the outbox's
	Now      func() time.Time // default time.Now
	Oversize []string         // SKUs that the carrier refuses; default none
}

// Fulfilment service.
type Fulfilment[TTx any] struct {
	home    table.Home[TTx]
	events  *event.Events
	out     *outbox.Outbox[TTx]
	journal *journal.Journal[TTx]
	sql     map[string]string
	o       Options
}

// New returns the Fulfilment service at home.
func New[TTx any](home table.Home[TTx], events *event.Events, o *Options) (*Fulfilment[TTx], error) {
	s := &Fulfilment[TTx]{home: home, events: events}
	if o != nil {
		s.o = *o
	}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	s.out = outbox.New(home.Store, s.o.Outbox)
	var err error
	if s.sql, err = table.Statements(queries); err != nil {
		return nil, err
	}
	s.journal, err = journal.New(home, s.o.Now)
	return s, err
}

// Prepare creates the tables, and adds the SKUs that the carrier refuses.
func (s *Fulfilment[TTx]) Prepare(ctx context.Context) error {
	if err := s.journal.Prepare(ctx); err != nil {
		return err
	}
	if err := s.home.Make(ctx, schema); err != nil {
		return fmt.Errorf("make tables: %w", err)
	}
	return s.home.Begin(ctx, func(tx TTx) error {
		for _, sku := range s.o.Oversize {
			if _, err := s.home.DB(tx).Exec(ctx, s.sql["Refuse"], sku); err != nil {
				return fmt.Errorf("refuse %s: %w", sku, err)
			}
		}
		return nil
	})
}

// Listen registers the handlers of this service.
func (s *Fulfilment[TTx]) Listen(in *inbox.Inbox[TTx]) {
	ship := s.events.StockReserved
	if s.events.Style == event.Orchestrated {
		ship = s.events.ShipParcel
		// a refund means that the order is given up, for any reason
		journal.On(in, s.journal, s.events.RefundPayment, s.giveUp)
	}
	journal.On(in, s.journal, ship, s.ship)
	journal.On(in, s.journal, s.events.CancelAsked, s.stop)
	journal.On(in, s.journal, s.events.PaymentDeclined, s.giveUp)
	journal.On(in, s.journal, s.events.StockShort, s.giveUp)
	journal.On(in, s.journal, s.events.ChangeAsked, s.note)
	journal.On(in, s.journal, s.events.ChangePaid, s.paid)
	journal.On(in, s.journal, s.events.ChangeDeclined, s.unpaid)
}

// Entities returns none: an order's parcel is independent of others, and messages of one key are handled
// one at a time, on any topic.
func (s *Fulfilment[TTx]) Entities(skald.Message) []store.Lock { return nil }

// ship gives an order to the carrier, or lets it wait until its changes are paid.
func (s *Fulfilment[TTx]) ship(ctx context.Context, tx TTx, m skald.Received[event.Verdict]) error {
	state, err := s.handOver(ctx, tx, m.Value.Order)
	if err == nil && state == stopped {
		return skald.Reject(ErrStopped) // the other services were informed then
	}
	return err
}

// handOver gives the parcel to the carrier. The carrier's refusal is a row, not a skald.Reject, because the
// attempt was made.
func (s *Fulfilment[TTx]) handOver(ctx context.Context, tx TTx, order event.Order) (state string, err error) {
	db := s.home.DB(tx)
	if state, err = s.leave(ctx, db, order.ID); err != nil || state != gone {
		return state, err
	}
	why, err := s.refused(ctx, db, order)
	if err != nil {
		return state, err
	}
	as, say := "shipped", s.events.ParcelShipped
	if why != "" {
		as, say = "failed", s.events.ParcelFailed
	}
	if _, err := db.Exec(ctx, s.sql["Parcel"], order.ID, as, why, table.Time(s.o.Now())); err != nil {
		return state, fmt.Errorf("hand over parcel: %w", err)
	}
	if err := s.out.Write(ctx, tx, say.New(order.ID, event.Verdict{Order: order, Reason: why})); err != nil ||
		why == "" {
		return state, err
	}
	return state, s.refuseAll(ctx, tx, order)
}

// leave marks a parcel as gone, or as ready if a change of it is not paid yet.
func (s *Fulfilment[TTx]) leave(ctx context.Context, db table.DB, order string) (state string, err error) {
	var unpaid int64
	if err := db.QueryRow(ctx, s.sql["CountUnpaid"], order).Scan(&unpaid); err != nil {
		return "", fmt.Errorf("count unpaid changes: %w", err)
	}
	if unpaid > 0 {
		return s.decide(ctx, db, order, ready)
	}
	return s.decide(ctx, db, order, gone)
}

func (s *Fulfilment[TTx]) refused(ctx context.Context, db table.DB, o event.Order) (why string, err error) {
	for _, item := range o.Items {
		var n int64
		if err := db.QueryRow(ctx, s.sql["Refused"], item.SKU).Scan(&n); err != nil {
			return "", fmt.Errorf("ask the carrier about %s: %w", item.SKU, err)
		}
		if n > 0 {
			return "the carrier does not take " + item.SKU, nil
		}
	}
	return "", nil
}

// stop keeps the parcel here, if it has not left. Other services then undo their part of the order, or
// never do it.
func (s *Fulfilment[TTx]) stop(ctx context.Context, tx TTx, m skald.Received[event.Verdict]) error {
	first, err := s.decide(ctx, s.home.DB(tx), m.Value.ID, stopped)
	if err != nil {
		return err
	}
	say := s.events.ParcelStopped
	if first == gone {
		say = s.events.ParcelGone
	}
	if err := s.out.Write(ctx, tx, say.New(m.Value.ID, m.Value)); err != nil || first == gone {
		return err // the changes of a parcel that is gone are answered
	}
	return s.refuseAll(ctx, tx, m.Value.Order)
}

// decide sets the state of an order's parcel, unless it is gone or stopped already, and returns its state.
// It locks or creates the row, so concurrent callers see each other's decision.
func (s *Fulfilment[TTx]) decide(ctx context.Context, db table.DB, order,
	as string) (state string, err error) {
	if err := db.QueryRow(ctx, s.sql["Decide"], order, as).Scan(&state); err != nil {
		return "", fmt.Errorf("decide about the parcel: %w", err)
	}
	return state, nil
}
