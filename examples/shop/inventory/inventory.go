// Package inventory is the service that reserves goods for paid orders, all items of an order or none, and
// releases them if the parcel fails.
package inventory

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"
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

var (
	// ErrShort refuses an order because of missing stock.
	ErrShort = errors.New("out of stock")
	// ErrBarred refuses an order whose reservation was undone before it arrived.
	ErrBarred = errors.New("the order was given up before its goods were put aside")
)

// States of a reservation.
const (
	reserved = "reserved"
	barred   = "barred"
)

// Options of an Inventory service. The zero value works.
type Options struct {
	Outbox *outbox.Options  // default: the outbox's
	Now    func() time.Time // default time.Now
	// Older is true if instances of a build without steps share the group, or did: the service then checks
	// reservations of such builds. Default false.
	Older bool
	// Stock has the initial number of pieces, for SKUs without stock. Default none.
	Stock map[string]int64
}

// Inventory service.
type Inventory[TTx any] struct {
	home    table.Home[TTx]
	events  *event.Events
	out     *outbox.Outbox[TTx]
	journal *journal.Journal[TTx]
	sql     map[string]string
	o       Options
}

// New returns the Inventory service at home.
func New[TTx any](home table.Home[TTx], events *event.Events, o *Options) (*Inventory[TTx], error) {
	s := &Inventory[TTx]{home: home, events: events}
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

// Prepare creates the tables, and adds missing stock.
func (s *Inventory[TTx]) Prepare(ctx context.Context) error {
	if err := s.journal.Prepare(ctx); err != nil {
		return err
	}
	if err := s.home.Make(ctx, schema); err != nil {
		return fmt.Errorf("make tables: %w", err)
	}
	return s.home.Begin(ctx, func(tx TTx) error {
		for _, sku := range slices.Sorted(maps.Keys(s.o.Stock)) {
			if _, err := s.home.DB(tx).Exec(ctx, s.sql["Deliver"], sku, s.o.Stock[sku]); err != nil {
				return fmt.Errorf("deliver %s: %w", sku, err)
			}
		}
		return nil
	})
}

// Listen registers the handlers of this service.
func (s *Inventory[TTx]) Listen(in *inbox.Inbox[TTx]) {
	if s.events.Style == event.Orchestrated {
		s.obey(in)
	} else {
		s.react(in)
	}
	if s.o.Older {
		in.LegacySteps(s.reservedBefore)
	}
}

func step[TTx any](in *inbox.Inbox[TTx]) *inbox.Step[TTx, event.Verdict] {
	return inbox.NewStep(in, "reserve", func(m skald.Received[event.Verdict]) string { return m.Value.ID })
}

// react registers handlers for the events of other services.
func (s *Inventory[TTx]) react(in *inbox.Inbox[TTx]) {
	barred := func(m skald.Received[event.Verdict]) []skald.Draft {
		return []skald.Draft{s.no(m.Value.Order, ErrBarred)}
	}
	reserve := step(in)
	inbox.DoOn(reserve, s.events.PaymentTaken, s.reserve, inbox.IfBarred(barred)) // it is paid
	inbox.UndoOn(reserve, s.events.ParcelFailed, s.release)                       // the carrier refused it
	inbox.UndoOn(reserve, s.events.ParcelStopped, s.release)                      // the customer cancelled it
}

// obey registers handlers for the commands of the order's saga. The saga waits for an answer to an undo,
// even if there is nothing to undo.
func (s *Inventory[TTx]) obey(in *inbox.Inbox[TTx]) {
	barred := func(m skald.Received[event.Verdict]) []skald.Draft {
		return []skald.Draft{s.no(m.Value.Order, ErrBarred)}
	}
	nothing := func(m skald.Received[event.Verdict], was store.StepState) []skald.Draft {
		if was == store.StepDone {
			return nil // the release publishes it
		}
		v := event.Verdict{Order: m.Value.Order, Reason: "nothing was put aside"}
		return []skald.Draft{s.events.StockReleased.New(v.ID, v)}
	}
	reserve := step(in)
	inbox.DoOn(reserve, s.events.ReserveStock, s.reserve, inbox.IfBarred(barred))
	inbox.UndoOn(reserve, s.events.ReleaseStock, s.release, inbox.Reply(nothing))
}

// Entities returns the SKUs of the order, sorted. So "out of stock" is still true at the commit.
func (s *Inventory[TTx]) Entities(m skald.Message) []store.Lock {
	asked := s.events.PaymentTaken
	if s.events.Style == event.Orchestrated {
		asked = s.events.ReserveStock
	}
	v, err := asked.Decode(context.Background(), m)
	if err != nil {
		return nil // the handler returns the error
	}
	var out []store.Lock
	for _, g := range goods(v.Value.Order) {
		out = append(out, store.Lock{Space: "sku", Key: g.sku})
	}
	return out
}

// reserve reserves all items of a paid order, or none.
func (s *Inventory[TTx]) reserve(ctx context.Context, tx TTx,
	m skald.Received[event.Verdict]) (r inbox.Result, err error) {
	if err := s.journal.Note(ctx, tx, m.Message); err != nil {
		return r, err
	}
	return r, s.reserveAll(ctx, tx, m.Value.Order)
}

func (s *Inventory[TTx]) reserveAll(ctx context.Context, tx TTx, order event.Order) error {
	db := s.home.DB(tx)
	if _, _, err := s.state(ctx, db, order.ID, reserved); err != nil {
		return err
	}
	for _, g := range goods(order) {
		switch n, err := db.Exec(ctx, s.sql["PutAside"], g.sku, g.quantity); {
		case err != nil:
			return fmt.Errorf("put %s aside: %w", g.sku, err)
		case n == 0:
			return s.short(order, fmt.Errorf("%s: %w", g.sku, ErrShort))
		}
		if err := s.moved(ctx, db, order.ID, g.sku, g.quantity); err != nil {
			return err
		}
	}
	return s.out.Write(ctx, tx, s.events.StockReserved.New(order.ID, event.Verdict{Order: order}))
}

// short refuses the order: the changes of reserve roll back.
func (s *Inventory[TTx]) short(order event.Order, why error) error {
	return skald.Reject(why, s.no(order, why))
}

func (s *Inventory[TTx]) no(order event.Order, why error) skald.Draft {
	return s.events.StockShort.New(order.ID, event.Verdict{Order: order, Reason: why.Error()})
}

// release undoes reserve. It runs only if goods were reserved. Otherwise a late reservation is barred.
func (s *Inventory[TTx]) release(ctx context.Context, tx TTx, m skald.Received[event.Verdict],
	_ inbox.DoneStep) (r inbox.Result, err error) {
	if err := s.journal.Note(ctx, tx, m.Message); err != nil {
		return r, err
	}
	return r, s.putBack(ctx, tx, m.Value)
}

func (s *Inventory[TTx]) putBack(ctx context.Context, tx TTx, v event.Verdict) error {
	db, order := s.home.DB(tx), v.Order
	switch n, err := db.Exec(ctx, s.sql["Released"], order.ID); {
	case err != nil:
		return fmt.Errorf("mark as released: %w", err)
	case n == 0: // a build without steps has released them
		return nil
	}
	for _, g := range goods(order) {
		if _, err := db.Exec(ctx, s.sql["PutBack"], g.sku, g.quantity); err != nil {
			return fmt.Errorf("put %s back: %w", g.sku, err)
		}
		if err := s.moved(ctx, db, order.ID, g.sku, -g.quantity); err != nil {
			return err
		}
	}
	return s.out.Write(ctx, tx, s.events.StockReleased.New(order.ID, v))
}

// state returns the state of an order's reservation, for builds without steps, and the number of calls. The
// first call sets the state to first.
func (s *Inventory[TTx]) state(ctx context.Context, db table.DB, order,
	first string) (state string, asked int64, err error) {
	if err := db.QueryRow(ctx, s.sql["State"], order, first).Scan(&state, &asked); err != nil {
		return "", 0, fmt.Errorf("read the reservation: %w", err)
	}
	return state, asked, nil
}

// reservedBefore reports whether a build without steps reserved the goods. It also records the new state for
// such builds.
func (s *Inventory[TTx]) reservedBefore(ctx context.Context, tx TTx, step inbox.StepID,
	undo bool) (bool, error) {
	first := reserved
	if undo {
		first = barred
	}
	state, asked, err := s.state(ctx, s.home.DB(tx), step.Saga, first)
	return state == reserved && asked > 1, err
}

func (s *Inventory[TTx]) moved(ctx context.Context, db table.DB, order, sku string, quantity int64) error {
	if _, err := db.Exec(ctx, s.sql["Movement"], order, sku, quantity, table.Time(s.o.Now())); err != nil {
		return fmt.Errorf("note movement of %s: %w", sku, err)
	}
	return nil
}

type good struct {
	sku      string
	quantity int64
}

// goods returns the quantities of an order by SKU, sorted so that two orders cannot deadlock.
func goods(o event.Order) []good {
	sum := map[string]int64{}
	for _, item := range o.Items {
		sum[item.SKU] += item.Quantity
	}
	var out []good
	for _, sku := range slices.Sorted(maps.Keys(sum)) {
		out = append(out, good{sku, sum[sku]})
	}
	return out
}
