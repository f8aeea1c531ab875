// Package place opens what the shop's commands name by URL: the databases of the services, and the broker
// between them.
package place

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/examples/shop/gateway"
	"github.com/skald-go/skald/examples/shop/mail"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/health"
	"github.com/skald-go/skald/store"
)

// A Shop is the databases of the services, of whatever kind.
type Shop interface {
	// Prepare makes the database of a service, with Skald's tables in it, where it is not there.
	Prepare(ctx context.Context, service string) error
	// Service opens a service: its own tables and first rows are made where they are not there. Order's
	// status names what holds an order at any of the services that are open here by then, unless o says who
	// is asked.
	Service(ctx context.Context, name string, bus broker.Broker, o *service.Options) (Service, error)
	// Where tells, at GET /{order}, where the saga of an order stands, by what the services say that are open
	// here when it is asked, and those elsewhere.
	Where(elsewhere Elsewhere) http.Handler
	// Answer tells other processes what the services know that are open here: see Databases.Answer.
	Answer() http.Handler
	// Read is the tables of all six databases, for package audit; they must be there. The gateway's and
	// the mail server's are with them if they are there.
	Read(ctx context.Context) (map[string]table.DB, error)
	// Gateway is the payment gateway, with its ledger in a database of its own, made where it is not there,
	// and in these moods.
	Gateway(ctx context.Context, o *gateway.Options, moods *gateway.Moods) (http.Handler, error)
	// Mail is the mail server, with its mailbox in a database of its own, made where it is not there, and in
	// these moods.
	Mail(ctx context.Context, moods *mail.Moods) (*mail.Server, error)
	// Close closes every database that was opened.
	Close() error
}

// A Service is one of the six, ready to run.
type Service interface {
	Runners() []skald.Runner
	Steppers() []skald.Stepper
	HTTP() http.Handler // nil for all but the Order service
	Watched(h *health.Handler)
}

var _ Service = (*service.Service[int])(nil)

// Open names the databases at url: sqlite:FOLDER, one file for each service, or postgres://…, one schema for
// each, named by prefix, an underscore and the service. It touches nothing yet.
func Open(url, prefix string) (Shop, error) {
	if folder, ok := strings.CutPrefix(url, "sqlite:"); ok && folder != "" {
		return SQLite(folder), nil
	}
	if strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://") {
		return Postgres(url, prefix)
	}
	return nil, &UsageError{What: "the store is sqlite:FOLDER or postgres://…"}
}

// Databases are those of the six services.
type Databases[TTx any] struct {
	// Wrap, if set, is put around each store as it is opened: for faults, in the demo and in tests. Set it
	// first.
	Wrap func(service string, s store.Driver[TTx]) store.Driver[TTx]

	kind kind[TTx]
	mu   sync.Mutex
	open map[string]*opened[TTx]
}

// kind is how databases of one kind are made and opened.
type kind[TTx any] interface {
	prepare(ctx context.Context, service string) error
	open(ctx context.Context, service string) (table.Home[TTx], func() error, error)
	// empty makes a database without Skald's tables, where it is not there.
	empty(ctx context.Context, name string) error
	// flags are how the command finds the database of a service, without a password.
	flags(service string) string
}

type opened[TTx any] struct {
	home  table.Home[TTx]
	close func() error
}

func databases[TTx any](k kind[TTx]) *Databases[TTx] {
	return &Databases[TTx]{kind: k, open: map[string]*opened[TTx]{}}
}

// Prepare makes the database of a service, with Skald's tables in it, where it is not there.
func (d *Databases[TTx]) Prepare(ctx context.Context, service string) error {
	if err := d.kind.prepare(ctx, service); err != nil {
		return fmt.Errorf("prepare the database of %s: %w", service, err)
	}
	return nil
}

// Home is the database of a service, which must be there. It is opened once.
func (d *Databases[TTx]) Home(ctx context.Context, service string) (table.Home[TTx], error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o := d.open[service]; o != nil {
		return o.home, nil
	}
	home, closing, err := d.kind.open(ctx, service)
	if err != nil {
		return home, fmt.Errorf("open the database of %s: %w", service, err)
	}
	if d.Wrap != nil {
		home.Store = d.Wrap(service, home.Store)
	}
	d.open[service] = &opened[TTx]{home, closing}
	return home, nil
}

// Service opens a service: its own tables and first rows are made where they are not there.
func (d *Databases[TTx]) Service(ctx context.Context, name string, bus broker.Broker,
	o *service.Options) (Service, error) {
	home, err := d.Home(ctx, name)
	if err != nil {
		return nil, err
	}
	s, err := service.New(name, home, bus, d.asking(o))
	if err != nil {
		return nil, err
	}
	if err := s.Part.Prepare(ctx); err != nil {
		return nil, fmt.Errorf("service %s: %w", name, err)
	}
	return s, nil
}

// Flags are how the command finds the database of a service, without a password.
func (d *Databases[TTx]) Flags(service string) string { return d.kind.flags(service) }

// Bank and Post are the names of the gateway's and the mail server's database.
const (
	Bank = "gateway"
	Post = "mail"
)

// Names are the names of all databases: those of the services, in their order, and those outside, last.
func Names() []string { return append(service.Names(), Bank, Post) }

// Gateway is the payment gateway.
func (d *Databases[TTx]) Gateway(ctx context.Context, o *gateway.Options,
	moods *gateway.Moods) (http.Handler, error) {
	if err := d.kind.empty(ctx, Bank); err != nil {
		return nil, fmt.Errorf("make the database of the gateway: %w", err)
	}
	home, err := d.Home(ctx, Bank)
	if err != nil {
		return nil, err
	}
	l, err := gateway.NewLedger(home, o)
	if err == nil {
		err = l.Prepare(ctx)
	}
	if err != nil {
		return nil, err
	}
	return gateway.NewServer(l, moods).Handler(), nil
}

// Mail is the mail server.
func (d *Databases[TTx]) Mail(ctx context.Context, moods *mail.Moods) (*mail.Server, error) {
	if err := d.kind.empty(ctx, Post); err != nil {
		return nil, fmt.Errorf("make the database of the mail server: %w", err)
	}
	home, err := d.Home(ctx, Post)
	if err != nil {
		return nil, err
	}
	box, err := mail.NewBox(home)
	if err == nil {
		err = box.Prepare(ctx)
	}
	if err != nil {
		return nil, err
	}
	return mail.NewServer(box, moods), nil
}

// Read is the tables of all six databases, which must be there, and of the gateway's and the mail server's,
// if they have one of their own.
func (d *Databases[TTx]) Read(ctx context.Context) (map[string]table.DB, error) {
	out := map[string]table.DB{}
	for _, name := range service.Names() {
		home, err := d.Home(ctx, name)
		if err != nil {
			return nil, err
		}
		out[name] = home.Read
	}
	for _, name := range []string{Bank, Post} {
		switch home, err := d.Home(ctx, name); {
		case err == nil:
			out[name] = home.Read
		case !errors.Is(err, ErrNone):
			return nil, err
		}
	}
	return out, nil
}

// Close closes every database that was opened.
func (d *Databases[TTx]) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for name, o := range d.open {
		errs = append(errs, o.close())
		delete(d.open, name)
	}
	return errors.Join(errs...)
}
