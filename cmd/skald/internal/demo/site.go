package demo

import (
	"context"
	dbsql "database/sql"
	"embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/examples/shop/gateway"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/sagatest"
)

//go:embed sql/query
var queries embed.FS

// site has the databases of a run.
type site interface {
	place.Shop
	// session returns one session of a service.
	session(ctx context.Context, name string, session *sagatest.Faults, client broker.Broker,
		c *crew) (place.Service, error)
	// transfers returns the transfers of the gateway for an order, from its ledger.
	transfers(ctx context.Context, order string) ([]gateway.Moved, error)
	// wishes returns the customers' interface of the Order service.
	wishes(s place.Service) (wishes, error)
	// repair redrives, drops and releases messages of a service. It returns the number of dropped messages.
	repair(ctx context.Context, name, consumer string) (dropped int, err error)
	// retry retries the steps of stuck sagas.
	retry(ctx context.Context) error
	// countKept returns the number of parked messages and dead letters of a service.
	countKept(ctx context.Context, name, consumer string) (int64, error)
	// sources returns the databases of the services for a console.
	sources(ctx context.Context) (map[string]console.Source, error)
	// book returns the ledger of the run that created these databases. It returns nil if the databases do not
	// exist, and a *cli.ForeignError if they have only objects of other programs.
	book(ctx context.Context) (*ledger, error)
	// claim creates the ledger, before any other object.
	claim(ctx context.Context, e *entry) (*ledger, error)
	// The methods below are those of playground.
	Lock(ctx context.Context) (release func(), err error)
	URL() string
	Remains() string
	Own(ctx context.Context) error
	Remove(ctx context.Context) (said string, err error)
	Sweep() error
}

// openSite returns the databases of --store. It opens nothing.
func openSite(o *Options) (site, error) {
	sql, err := table.Statements(queries)
	if err != nil {
		return nil, err
	}
	if folder, ok := strings.CutPrefix(o.Store, "sqlite:"); ok && folder != "" {
		g, err := sqLite(folder)
		return &shop[*dbsql.Tx]{g, sql}, err
	}
	if strings.HasPrefix(o.Store, "postgres://") || strings.HasPrefix(o.Store, "postgresql://") {
		g, err := postgres(o.Store, o.Prefix, o.Typed)
		return &shop[pgx.Tx]{g, sql}, err
	}
	return nil, &cli.UsageError{What: "the store is sqlite:FOLDER or postgres://…"}
}

// shop is a site on one kind of database.
type shop[TTx any] struct {
	*playground[TTx]
	sql map[string]string
}

func (s *shop[TTx]) wishes(order place.Service) (wishes, error) {
	if whole, ok := order.(*service.Service[TTx]); ok {
		if p, ok := whole.Part.(wishes); ok {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%T is not the Order service", order)
}

func (s *shop[TTx]) book(ctx context.Context) (*ledger, error) {
	if has, err := s.Has(ctx, "demo_run"); err != nil || !has {
		return nil, err
	}
	return s.ledger(ctx)
}

func (s *shop[TTx]) ledger(ctx context.Context) (*ledger, error) {
	home, err := s.Order(ctx)
	if err != nil {
		return nil, err
	}
	begin := func(ctx context.Context, do func(table.DB) error) error {
		return home.Begin(ctx, func(tx TTx) error { return do(home.DB(tx)) })
	}
	return &ledger{db: home.Read, begin: begin, sql: s.sql}, nil
}

func (s *shop[TTx]) claim(ctx context.Context, e *entry) (*ledger, error) {
	l, err := s.ledger(ctx)
	if err != nil {
		return nil, err
	}
	first, err := s.First(ctx)
	if err != nil {
		return nil, err
	}
	return l, l.claim(ctx, e, first)
}
