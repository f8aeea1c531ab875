// Package place opens the databases and the broker that the shop's commands name by URL.
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

// Shop has the databases of the services, of any kind.
type Shop interface {
	// Prepare creates the database of a service with Skald's tables, if missing.
	Prepare(ctx context.Context, service string) error
	// Service opens a service, and creates its tables and first rows if missing. Order's status covers the
	// services that are open here, unless o.Where is set.
	Service(ctx context.Context, name string, bus broker.Broker, o *service.Options) (Service, error)
	// Where serves GET /{order}: the status of an order's saga, from the services that are open here and
	// those elsewhere.
	Where(elsewhere Elsewhere) http.Handler
	// Answer serves the status of the services that are open here to other processes: see Databases.Answer.
	Answer() http.Handler
	// Read returns the tables of all six databases for package audit; they must exist. The gateway's and
	// the mail server's are included if they exist.
	Read(ctx context.Context) (map[string]table.DB, error)
	// Gateway returns the payment gateway, with its ledger in its own database, which is created if
	// missing.
	Gateway(ctx context.Context, o *gateway.Options, moods *gateway.Moods) (http.Handler, error)
	// Mail returns the mail server, with its mailbox in its own database, which is created if missing.
	Mail(ctx context.Context, moods *mail.Moods) (*mail.Server, error)
	// Close closes every database that was opened.
	Close() error
}

// Service is one of the six, ready to run.
type Service interface {
	Runners() []skald.Runner
	Steppers() []skald.Stepper
	HTTP() http.Handler // nil except for the Order service
	Watched(h *health.Handler)
}

var _ Service = (*service.Service[int])(nil)

// Open returns the databases at url: sqlite:FOLDER, one file for each service, or postgres://…, one schema
// for each, named by prefix, an underscore and the service. It does not connect yet.
func Open(url, prefix string) (Shop, error) {
	if folder, ok := strings.CutPrefix(url, "sqlite:"); ok && folder != "" {
		return SQLite(folder), nil
	}
	if strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://") {
		return Postgres(url, prefix)
	}
	return nil, &UsageError{What: "the store must be sqlite:FOLDER or postgres://…"}
}

// Databases has the databases of the six services.
type Databases[TTx any] struct {
	// Wrap, if set, wraps each store when it is opened, to inject faults in the demo and in tests. Set it
	// before any other call.
	Wrap func(service string, s store.Driver[TTx]) store.Driver[TTx]

	kind kind[TTx]
	mu   sync.Mutex
	open map[string]*opened[TTx]
}

// kind creates and opens databases of one kind.
type kind[TTx any] interface {
	prepare(ctx context.Context, service string) error
	open(ctx context.Context, service string) (table.Home[TTx], func() error, error)
	// empty creates a database without Skald's tables, if missing.
	empty(ctx context.Context, name string) error
	// flags returns the command's flags for the database of a service, without a password.
	flags(service string) string
}

type opened[TTx any] struct {
	home  table.Home[TTx]
	close func() error
}

func databases[TTx any](k kind[TTx]) *Databases[TTx] {
	return &Databases[TTx]{kind: k, open: map[string]*opened[TTx]{}}
}

// Prepare creates the database of a service with Skald's tables, if missing.
func (d *Databases[TTx]) Prepare(ctx context.Context, service string) error {
	if err := d.kind.prepare(ctx, service); err != nil {
		return fmt.Errorf("prepare the database of %s: %w", service, err)
	}
	return nil
}

// Home returns the database of a service, which must exist, and opens it on the first call.
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

// Service opens a service, and creates its tables and first rows if missing.
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

// Flags returns the command's flags for the database of a service, without a password.
func (d *Databases[TTx]) Flags(service string) string { return d.kind.flags(service) }

// Bank and Post are the database names of the gateway and the mail server.
const (
	Bank = "gateway"
	Post = "mail"
)

// Names returns the names of all databases: the services in order, then the gateway and the mail server.
func Names() []string { return append(service.Names(), Bank, Post) }

// Gateway returns the payment gateway.
func (d *Databases[TTx]) Gateway(ctx context.Context, o *gateway.Options,
	moods *gateway.Moods) (http.Handler, error) {
	if err := d.kind.empty(ctx, Bank); err != nil {
		return nil, fmt.Errorf("create the database of the gateway: %w", err)
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

// Mail returns the mail server.
func (d *Databases[TTx]) Mail(ctx context.Context, moods *mail.Moods) (*mail.Server, error) {
	if err := d.kind.empty(ctx, Post); err != nil {
		return nil, fmt.Errorf("create the database of the mail server: %w", err)
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

// Read returns the tables of all six databases, which must exist, and of the gateway and the mail server if
// they have their own.
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
