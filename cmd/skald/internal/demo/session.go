package demo

import (
	"context"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/sagatest"
)

// session returns one session of a service. Faults are injected into its store, broker and tables, and a
// safeguard may be removed.
func (s *shop[TTx]) session(ctx context.Context, name string, session *sagatest.Faults,
	client broker.Broker, c *crew) (place.Service, error) {
	home, err := s.Home(ctx, name)
	if err != nil {
		return nil, err
	}
	b := sagatest.WrapBroker(client, session)
	home.Store = sagatest.WrapDriver(home.Store, session)
	inner := home.DB
	home.DB = func(tx TTx) table.DB { return upsetting{inner(tx), session} }
	home, b = withSabotage(c.lack, name, session == c.faults, home, b)
	return service.New(name, home, c.watch.Over(b), c.options(name))
}

// upsetting has the tables of a service. Its Exec fails at random in handlers.
type upsetting struct {
	table.DB
	session *sagatest.Faults
}

func (u upsetting) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	if m, ok := skald.Cause(ctx); ok { // in a handler
		if err := u.session.FailHandler(m); err != nil {
			return 0, err
		}
	}
	return u.DB.Exec(ctx, sql, args...)
}
