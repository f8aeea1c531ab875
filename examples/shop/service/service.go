// Package service puts the six services of the shop together: each with its inbox and its relay.
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

// Names are the services.
func Names() []string {
	return []string{"order", "payment", "inventory", "fulfilment", "notification", "analytics"}
}

// handle is how long a handler may take, unless the options say otherwise. None here needs a tenth of it; and
// what an instance holds that stands still, rows of hot goods among them, is held about so long.
const handle = 2 * time.Second

// rivals is how long an intake may wait for one. With handle it says how soon others go on with a call that
// an instance was at when it died.
const rivals = 2 * time.Second

// Options of a service. The zero value works.
type Options struct {
	// Prefix of topics and groups, with a dot behind it. Default none.
	Prefix string
	// Instance is this instance's stable name among those of the same service; two that live at the same
	// time must not share one. Default "1".
	Instance string
	// Outbox, Inbox and Relay are the options of the stations; Member, Owner and Entities are set here.
	// Default as they say.
	Outbox outbox.Options
	Inbox  inbox.Options
	Relay  relay.Options
	// Now is the clock of the service's own rows. Default time.Now.
	Now func() time.Time
	// Style is who knows what comes next for an order; the same for all services. Default: each service.
	Style event.Style
	// Saga are the options of the engine of the orchestrated style. Default as they say.
	Saga saga.EngineOptions
	// Older: instances of a build that knew no steps share the groups of Payment and Inventory, or did.
	// Default false.
	Older bool
	// Payments is how payment.taken travels: what an instance writes, and what it can read. Default: JSON.
	Payments wire.Form
	// Gateway is whom Payment asks. Default: one in its own database, which does what it is asked.
	Gateway gateway.Gateway
	// Mail is who delivers Notification's mails. Default: nobody; what it writes down is the mail.
	Mail mail.Sender
	// MailMemory is how long it knows a Message-ID again: see notification.Options.Memory. Default: for ever.
	MailMemory time.Duration
	// Where tells Order, at GET /{id}, where the saga of an order stands, for its status over HTTP. Default:
	// there is no status. Package place asks all services that it has opened, unless this says who is asked.
	Where http.Handler
	// Seen remembers answers of Order over HTTP in front of its database. Default: none.
	Seen once.Cache
	// NewID names orders and transfers. Default: 26 random letters and digits.
	NewID func() string
}

// A Part is what tells one service from another.
type Part[TTx any] interface {
	// Prepare makes the service's tables and first rows. What is there already stays as it is.
	Prepare(ctx context.Context) error
	// Listen tells in what the service handles.
	Listen(in *inbox.Inbox[TTx])
	// Entities are what a message is about, for the inbox to lock.
	Entities(m skald.Message) []store.Lock
}

// A Service is one of the six, in one process. Instances of it share its database and its group.
type Service[TTx any] struct {
	Name  string
	Part  Part[TTx]
	Inbox *inbox.Inbox[TTx]
	Relay *relay.Relay

	engine  *saga.Engine[TTx] // of Order, in the orchestrated style
	tracker *inbox.Inbox[TTx] // of Order, in the other one: it knows where each order stands
	http    http.Handler
}

// New is the service of that name at home.
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
	in.Timeouts.Wait = cmp.Or(in.Timeouts.Wait, rivals)
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

// ready is a writer that has the ids of its schemas before it writes.
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

// track keeps a row for each order, by the events of all services: nobody else knows the whole.
func (s *Service[TTx]) track(db store.Driver[TTx], bus broker.Broker, events *event.Events,
	o inbox.Options) error {
	rows, ok := db.(store.Tracker[TTx])
	if !ok {
		return fmt.Errorf("%T tracks no sagas: take another store", db)
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
		err = fmt.Errorf("there is none: it is one of %s", strings.Join(Names(), ", "))
	}
	return err
}

// Runners are what makes the service work: its inbox, its relay, and of Order the engine or the tracker of
// its sagas.
func (s *Service[TTx]) Runners() []skald.Runner {
	switch {
	case s.engine != nil:
		return []skald.Runner{s.Inbox, s.Relay, s.engine}
	case s.tracker != nil:
		return []skald.Runner{s.Inbox, s.Relay, s.tracker}
	}
	return []skald.Runner{s.Inbox, s.Relay}
}

// Steppers are the same, to be driven turn by turn.
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

// HTTP is the Order service's handler; nil for the others.
func (s *Service[TTx]) HTTP() http.Handler { return s.http }
