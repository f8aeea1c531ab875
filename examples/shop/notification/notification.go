// Package notification is the service that sends one mail to the customer when an order has ended. A mail
// server delivers it outside any transaction; this service records the delivery.
package notification

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/journal"
	"github.com/skald-go/skald/examples/shop/mail"
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
	// Mail delivers mails, each Message-ID once. Default: none, and the recorded row is the mail.
	Mail mail.Sender
	// Memory is how long Mail remembers a Message-ID. Default: forever. Use Forgetful for a server that
	// remembers none: then no mail is sent twice, but a mail whose first sending was not confirmed becomes
	// a dead letter.
	Memory time.Duration
}

// Forgetful is the Memory of a mail server that accepts the same mail twice.
const Forgetful = time.Nanosecond

// patience limits a call of the mail server.
const patience = time.Second

// Notification service.
type Notification[TTx any] struct {
	home    table.Home[TTx]
	events  *event.Events
	journal *journal.Journal[TTx]
	sql     map[string]string
	server  *call.Provider
	o       Options
}

// New returns the Notification service at home.
func New[TTx any](home table.Home[TTx], events *event.Events, o *Options) (*Notification[TTx], error) {
	s := &Notification[TTx]{home: home, events: events}
	if o != nil {
		s.o = *o
	}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	s.server = call.NewProvider("mail server", &call.ProviderOptions{Timeout: patience, Rest: patience})
	var err error
	if s.sql, err = table.Statements(queries); err != nil {
		return nil, err
	}
	s.journal, err = journal.New(home, s.o.Now)
	return s, err
}

// Prepare creates the tables.
func (s *Notification[TTx]) Prepare(ctx context.Context) error {
	if err := s.journal.Prepare(ctx); err != nil {
		return err
	}
	if err := s.home.Make(ctx, schema); err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	return nil
}

// Listen registers the handlers of this service.
func (s *Notification[TTx]) Listen(in *inbox.Inbox[TTx]) {
	for _, ended := range []skald.Event[event.Verdict]{s.events.OrderConfirmed, s.events.OrderCancelled} {
		if s.o.Mail == nil {
			inbox.On(in, ended, s.note)
			continue
		}
		inbox.OnCall(in, ended, s.send())
	}
}

// Entities returns none: mails are independent.
func (s *Notification[TTx]) Entities(skald.Message) []store.Lock { return nil }

// about returns the mail about the outcome of the order.
func about(m skald.Received[event.Verdict]) mail.Mail {
	subject := "Your order is on its way"
	if m.Type == event.OrderCancelled {
		subject = "Your order was cancelled: " + m.Value.Reason
	}
	return mail.Mail{
		ID:      "order-" + url.QueryEscape(m.Value.ID) + "@shop.example",
		To:      url.QueryEscape(m.Value.Customer) + "@customers.example", // the name may contain any character
		Subject: subject,
	}
}

// send delivers the mail by the mail server. SMTP has no look-up for a mail without an answer, so the mail
// is sent again with the same Message-ID.
func (s *Notification[TTx]) send() call.Call[TTx, event.Verdict, mail.Mail, struct{}] {
	return call.Call[TTx, event.Verdict, mail.Mail, struct{}]{
		At: s.server, Memory: s.o.Memory,
		Intent: func(_ context.Context, _ TTx, m skald.Received[event.Verdict]) (mail.Mail, string, error) {
			return about(m), about(m).ID, nil
		},
		Do: func(ctx context.Context, m mail.Mail, _ string) (struct{}, error) {
			err := s.o.Mail.Send(ctx, m)
			var busy *mail.BusyError
			var no *mail.RefusedError
			switch {
			case errors.As(err, &busy):
				err = skald.RetryAfter(busy.After, err)
			case errors.As(err, &no):
				err = skald.Permanent(err) // an operator has to inform the customer
			}
			return struct{}{}, err
		},
		Settle: func(
			ctx context.Context, tx TTx, m skald.Received[event.Verdict], _ call.Outcome[struct{}],
		) error {
			return s.note(ctx, tx, m)
		},
	}
}

// note records that the customer received a mail about the outcome of the order.
func (s *Notification[TTx]) note(ctx context.Context, tx TTx, m skald.Received[event.Verdict]) error {
	if err := s.journal.Note(ctx, tx, m.Message); err != nil {
		return err
	}
	v, at := m.Value, table.Time(s.o.Now())
	if _, err := s.home.DB(tx).Exec(ctx, s.sql["Mail"], v.ID, v.Customer, about(m).Subject, at); err != nil {
		return fmt.Errorf("record the mail: %w", err)
	}
	return nil
}
