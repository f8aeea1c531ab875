package demo

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/cmd/skald/internal/exit"
	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/examples/shop/gateway"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/sagatest"
)

//go:embed sql/query
var queries embed.FS

// A site is where the databases of a run are.
type site interface {
	place.Shop
	// life is one session of a service.
	session(ctx context.Context, name string, session *sagatest.Faults, client broker.Broker,
		c *crew) (place.Service, error)
	// moves is what the gateway has moved for an order, by its own ledger.
	moves(ctx context.Context, order string) ([]gateway.Moved, error)
	// placer takes wishes at the Order service.
	placer(s place.Service) (placer, error)
	// mend sees to what a service keeps, and tells how many it has dropped.
	mend(ctx context.Context, name, consumer string) (dropped int, err error)
	// retry has the steps of stuck sagas tried again.
	retry(ctx context.Context) error
	// keeping is how many messages a service keeps: parked ones and dead letters.
	keeping(ctx context.Context, name, consumer string) (int64, error)
	// sources are the databases of the services for a console.
	sources(ctx context.Context) (map[string]console.Source, error)
	// book is the ledger of the run that made these databases, nil if there is nothing yet. Else a
	// *exit.ForeignError.
	book(ctx context.Context) (*ledger, error)
	// claim makes the ledger, before anything else.
	claim(ctx context.Context, e *entry) (*ledger, error)
	// lock keeps other demos away from these databases until it is released, or this process ends: else a
	// *exit.ForeignError.
	lock(ctx context.Context) (release func(), err error)
	// url is what to say for --store, without a password.
	url() string
	// remains says what the run leaves behind.
	remains() string
	// own is a *exit.ForeignError if there is something in the databases that the run did not make.
	own(ctx context.Context) error
	// remove takes the databases away, and says so.
	remove(ctx context.Context) (said string, err error)
	// sweep takes away what a removal leaves that was killed behind the last database.
	sweep() error
}

type placer interface {
	Note(ctx context.Context, key string, code int, body string) error
	Change(ctx context.Context, id, address string) (fresh bool, err error)
	Cancel(ctx context.Context, id string) (fresh bool, err error)
}

// openSite knows the databases by --store. It touches nothing.
func openSite(o *Options) (site, error) {
	sql, err := table.Statements(queries)
	if err != nil {
		return nil, err
	}
	switch {
	case strings.HasPrefix(o.Store, "sqlite:") && len(o.Store) > len("sqlite:"):
		return newFiles(o, sql), nil
	case strings.HasPrefix(o.Store, "postgres://"), strings.HasPrefix(o.Store, "postgresql://"):
		return newSchemas(o, sql)
	}
	return nil, &exit.UsageError{What: "the store is sqlite:FOLDER or postgres://…"}
}

// A ground is a site on one kind of database.
type ground[TTx any] struct {
	*place.Databases[TTx]
	kind[TTx]
	sql   map[string]string
	order *table.Home[TTx] // Order's database, without Skald; nil until it is needed
}

// kind is what differs between the kinds.
type kind[TTx any] interface {
	// present are the names of the tables in a service's database; nil, if that is not there.
	present(ctx context.Context, service string) ([]string, error)
	// bare opens Order's database without Skald's tables. It is made where it is not there.
	bare(ctx context.Context) (table.Home[TTx], error)
	// first is the statement that goes before the one that makes the ledger, in its transaction; "": none.
	first(ctx context.Context) (statement string, err error)
	lock(ctx context.Context) (release func(), err error)
	url() string
	remains() string
	called(service string) string
	// foreign is what is in a service's database and not the demo's; "": nothing.
	foreign(ctx context.Context, service string) (what string, err error)
	// drop takes a service's database away, if it is there.
	drop(ctx context.Context, service string) error
	// clean takes away what is left behind the last database, and says what it leaves.
	clean() (stays string, err error)
	sweep() error
	close() error
}

// errOther: two at once would each take the other's services for dead ones.
func errOther(at string) error {
	return &exit.ForeignError{What: "another demo is at work at " + at,
		Remedy: "wait for its end, or choose another --dir or --prefix"}
}

// errRemoved: who waited for the lock finds nothing left.
func errRemoved(at string) error {
	return &exit.ForeignError{What: "the run at " + at + " has just been removed", Remedy: "start again"}
}

func (g *ground[TTx]) placer(s place.Service) (placer, error) {
	if whole, ok := s.(*service.Service[TTx]); ok {
		if p, ok := whole.Part.(placer); ok {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%T takes no orders", s)
}

// Read is an *exit.NoneError if a database is not there.
func (g *ground[TTx]) Read(ctx context.Context) (map[string]table.DB, error) {
	dbs, err := g.Databases.Read(ctx)
	if errors.Is(err, place.ErrNone) {
		err = &exit.NoneError{What: err.Error()}
	}
	return dbs, err
}

func (g *ground[TTx]) book(ctx context.Context) (*ledger, error) {
	var found []string
	for _, name := range place.Names() {
		tables, err := g.present(ctx, name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("look at %s: %w", g.called(name), err)
		case slices.Contains(tables, "demo_run"):
			return g.ledger(ctx)
		case len(tables) > 0:
			found = append(found, g.called(name))
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	return nil, &exit.ForeignError{
		What:   "there are objects that this demo did not make: " + strings.Join(found, ", "),
		Remedy: "choose another --dir or --prefix, or remove them",
	}
}

func (g *ground[TTx]) ledger(ctx context.Context) (*ledger, error) {
	if g.order == nil {
		home, err := g.bare(ctx)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", g.called("order"), err)
		}
		g.order = &home
	}
	begin := func(ctx context.Context, do func(table.DB) error) error {
		return g.order.Begin(ctx, func(tx TTx) error { return do(g.order.DB(tx)) })
	}
	return &ledger{db: g.order.Read, begin: begin, sql: g.sql}, nil
}

func (g *ground[TTx]) claim(ctx context.Context, e *entry) (*ledger, error) {
	l, err := g.ledger(ctx)
	if err != nil {
		return nil, err
	}
	first, err := g.first(ctx)
	if err != nil {
		return nil, err
	}
	return l, l.claim(ctx, e, first)
}

// Close closes everything that was opened.
func (g *ground[TTx]) Close() error {
	return errors.Join(g.Databases.Close(), g.close())
}
