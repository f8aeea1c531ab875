// Package notification is the service that writes one mail to the customer when an order has ended.
package notification

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/journal"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

var (
	//go:embed sql/schema.sql
	schema string
	//go:embed sql/query
	queries embed.FS
)

// Options of a Notification service. The zero value works.
type Options struct {
	Now func() time.Time // default time.Now
}

// A Notification service.
type Notification[TTx any] struct {
	home    table.Home[TTx]
	events  *event.Events
	journal *journal.Journal[TTx]
	sql     map[string]string
	now     func() time.Time
}

// New is the Notification service at home.
func New[TTx any](home table.Home[TTx], events *event.Events, o *Options) (*Notification[TTx], error) {
	s := &Notification[TTx]{home: home, events: events, now: time.Now}
	if o != nil && o.Now != nil {
		s.now = o.Now
	}
	var err error
	if s.sql, err = table.Statements(queries); err != nil {
		return nil, err
	}
	s.journal, err = journal.New(home, s.now)
	return s, err
}

// Prepare makes the tables.
func (s *Notification[TTx]) Prepare(ctx context.Context) error {
	if err := s.journal.Prepare(ctx); err != nil {
		return err
	}
	if err := s.home.Make(ctx, schema); err != nil {
		return fmt.Errorf("make tables: %w", err)
	}
	return nil
}

// Listen tells in what this service handles.
func (s *Notification[TTx]) Listen(in *inbox.Inbox[TTx]) {
	journal.On(in, s.journal, s.events.OrderConfirmed, s.mail)
	journal.On(in, s.journal, s.events.OrderCancelled, s.mail)
}

// Entities are none: mails do not concern each other.
func (s *Notification[TTx]) Entities(skald.Message) []store.Lock { return nil }

// mail writes to the customer what became of the order. The row is the mail: a mail server outside could not
// be made to send once by a transaction in here.
func (s *Notification[TTx]) mail(ctx context.Context, tx TTx, m skald.Received[event.Verdict]) error {
	subject := "Your order is on its way"
	if m.Type == event.OrderCancelled {
		subject = "Your order was cancelled: " + m.Value.Reason
	}
	_, err := s.home.DB(tx).Exec(ctx, s.sql["Mail"], m.Value.ID, m.Value.Customer, subject, table.Time(s.now()))
	if err != nil {
		return fmt.Errorf("send mail: %w", err)
	}
	return nil
}
