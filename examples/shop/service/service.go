// Package service assembles the six services of the shop, each with its inbox and its relay.
package service

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/examples/shop/analytics"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/fulfilment"
	"github.com/skald-go/skald/examples/shop/gateway"
	"github.com/skald-go/skald/examples/shop/inventory"
	"github.com/skald-go/skald/examples/shop/mail"
	"github.com/skald-go/skald/examples/shop/notification"
	"github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/examples/shop/payment"
	"github.com/skald-go/skald/examples/shop/sample"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/examples/shop/wire"
	"github.com/skald-go/skald/flow"
	"github.com/skald-go/skald/health"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
)

// Names returns the names of the services.
func Names() []string {
	return []string{"order", "payment", "inventory", "fulfilment", "notification", "analytics"}
}

// handle is the default limit of a handler. No handler here needs a tenth of it. A paused instance holds
// its locks, such as rows of popular goods, for about this time.
const handle = 2 * time.Second

// lockWait is the default limit of an intake's wait for a lock. With handle it determines how soon other
// instances continue an external call of a dead instance.
const lockWait = 2 * time.Second

// Options of a service. The zero value works.
type Options struct {
	// Prefix of topics and groups, followed by a dot. Default none.
	Prefix string
	// Instance is the stable name of this instance within its service. Two running instances must not share
	// a name. Default "1".
	Instance string
	// Outbox, Inbox and Relay configure the components; New sets Member, Owner and Entities.
	Outbox outbox.Options
	Inbox  inbox.Options
	Relay  relay.Options
	// Now is the clock of the service's own rows. Default time.Now.
	Now func() time.Time
	// Style selects choreography or orchestration; the same for all services. Default: choreographed.
	Style event.Style
	// Saga configures the engine of the orchestrated style.
	Saga saga.EngineOptions
	// Older is true if instances of a build without steps share the groups of Payment and Inventory, or
	// did. Default false.
	Older bool
	// Payments is the encoding of payment.taken. Default: JSON.
	Payments wire.Form
	// Gateway moves the money for Payment. Default: a well-behaved one in Payment's database.
	Gateway gateway.Gateway
	// Mail delivers Notification's mails. Default: none; the recorded row is the mail.
	Mail mail.Sender
	// MailMemory is how long Mail remembers a Message-ID: see notification.Options.Memory. Default:
	// forever.
	MailMemory time.Duration
	// Where serves GET /{id}: the status of an order's saga, for Order's HTTP. Default: none. Package place
	// sets it to all services that it has opened.
	Where http.Handler
	// Seen caches answers of Order over HTTP. Default: none.
	Seen once.Cache
	// NewID returns ids of orders and transfers. Default: 26 random letters and digits.
	NewID func() string
}

// Part is the specific part of one service.
type Part[TTx any] interface {
	// Prepare creates the service's tables and first rows. Existing ones do not change.
	Prepare(ctx context.Context) error
	// Listen registers the handlers of the service.
	Listen(in *inbox.Inbox[TTx])
	// Entities returns the entities of a message, for the inbox to lock.
	Entities(m skald.Message) []store.Lock
}

// Service is one of the six, in one process. Its instances share a database and a group.
type Service[TTx any] struct {
	Name  string
	Part  Part[TTx]
	Inbox *inbox.Inbox[TTx]
	Relay *relay.Relay

	engine  *saga.Engine[TTx] // of Order in the orchestrated style
	tracker *inbox.Inbox[TTx] // of Order in the choreographed style: it tracks each order
	http    http.Handler
}

// New returns the service of that name at home.
func New[TTx any](name string, home table.Home[TTx], bus broker.Broker, o *Options) (*Service[TTx], error) {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Instance == "" {
		d.Instance = "1"
	}
	events := event.New(d.Prefix)
	events.Style = d.Style
	s := &Service[TTx]{Name: name}
	warm, err := d.Payments.In(events, home.Store, d.Inbox.Logger)
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", name, err)
	}
	if err := s.build(home, events, d); err != nil {
		return nil, fmt.Errorf("service %s: %w", name, err)
	}
	if name == "payment" {
		s.Part = ready[TTx]{s.Part, warm}
	}
	in, out := d.Inbox, d.Relay
	in.Instance.Member = events.Group(name) + "-" + d.Instance
	in.Transaction.Entities = s.Part.Entities
	in.Timeouts.Handle = cmp.Or(in.Timeouts.Handle, handle)
	in.Timeouts.Wait = cmp.Or(in.Timeouts.Wait, lockWait)
	out.Owner = in.Instance.Member
	s.Inbox = inbox.New(home.Store, bus, events.Group(name), &in)
	s.Part.Listen(s.Inbox)
	s.Relay = relay.New(home.Store, bus, &out)
	if name == "order" && s.engine == nil {
		if err := s.track(home.Store, bus, events, in); err != nil {
			return nil, fmt.Errorf("service %s: %w", name, err)
		}
	}
	return s, nil
}

// ready requests the schema ids before the service writes.
type ready[TTx any] struct {
	Part[TTx]
	warm func(context.Context) error
}

func (r ready[TTx]) Prepare(ctx context.Context) error {
	if err := r.Part.Prepare(ctx); err != nil {
		return err
	}
	return r.warm(ctx)
}

// track keeps a row for each order, from the events of all services, because no single service has them
// all.
func (s *Service[TTx]) track(db store.Driver[TTx], bus broker.Broker, events *event.Events,
	o inbox.Options) error {
	rows, ok := db.(store.Tracker[TTx])
	if !ok {
		return fmt.Errorf("%T does not support tracking: use another store", db)
	}
	placing, err := events.Placing()
	if err != nil {
		return err
	}
	o.Transaction.Entities = nil
	o.Instance.Member = events.Group(event.Tracker) + strings.TrimPrefix(o.Instance.Member,
		events.Group(s.Name))
	s.tracker = inbox.New(db, bus, events.Group(event.Tracker), &o)
	flow.NewTracker(placing, rows, &flow.Options{Key: func(m skald.Message) string { return string(m.Key) },
		Now: o.Now}).On(s.tracker)
	return nil
}

func (s *Service[TTx]) build(home table.Home[TTx], events *event.Events, o Options) (err error) {
	switch s.Name {
	case "order":
		var part *order.Order[TTx]
		part, err = order.New(home, events, &order.Options{Outbox: &o.Outbox, Now: o.Now, NewID: o.NewID,
			Where: o.Where, Seen: o.Seen, Logger: o.Inbox.Logger, Saga: o.Saga, Prices: sample.Prices()})
		if err == nil {
			s.Part, s.http, s.engine = part, part.Handler(), part.Engine()
		}
	case "payment":
		s.Part, err = payment.New(home, events, &payment.Options{Outbox: &o.Outbox, Now: o.Now,
			NewID: o.NewID, Gateway: o.Gateway, Older: o.Older, Accounts: sample.Accounts()})
	case "inventory":
		s.Part, err = inventory.New(home, events,
			&inventory.Options{Outbox: &o.Outbox, Now: o.Now, Older: o.Older, Stock: sample.Stock()})
	case "fulfilment":
		s.Part, err = fulfilment.New(home, events,
			&fulfilment.Options{Outbox: &o.Outbox, Now: o.Now, Oversize: sample.Oversize()})
	case "notification":
		s.Part, err = notification.New(home, events,
			&notification.Options{Now: o.Now, Mail: o.Mail, Memory: o.MailMemory})
	case "analytics":
		s.Part, err = analytics.New(home, events, &analytics.Options{Now: o.Now})
	default:
		err = fmt.Errorf("unknown service: use one of %s", strings.Join(Names(), ", "))
	}
	return err
}

// Runners returns the service's inbox and relay, and for Order the engine or the tracker of its sagas.
func (s *Service[TTx]) Runners() []skald.Runner {
	switch {
	case s.engine != nil:
		return []skald.Runner{s.Inbox, s.Relay, s.engine}
	case s.tracker != nil:
		return []skald.Runner{s.Inbox, s.Relay, s.tracker}
	}
	return []skald.Runner{s.Inbox, s.Relay}
}

// Steppers returns the same components, to be run step by step.
func (s *Service[TTx]) Steppers() []skald.Stepper {
	switch {
	case s.engine != nil:
		return []skald.Stepper{s.Inbox, s.Relay, s.engine}
	case s.tracker != nil:
		return []skald.Stepper{s.Inbox, s.Relay, s.tracker}
	}
	return []skald.Stepper{s.Inbox, s.Relay}
}

// Watched adds the service's inbox, relay, tracker and engine to the health pages.
func (s *Service[TTx]) Watched(h *health.Handler) {
	h.Add(s.Name, s.Inbox)
	h.Add("relay of "+s.Name, s.Relay)
	if s.tracker != nil {
		h.Add(event.Tracker, s.tracker)
	}
	if s.engine != nil {
		h.Add("sagas of "+s.Name, s.engine)
	}
}

// HTTP returns the Order service's handler; nil for the others.
func (s *Service[TTx]) HTTP() http.Handler { return s.http }
