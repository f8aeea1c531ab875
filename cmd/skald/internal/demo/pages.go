package demo

import (
	"context"
	"fmt"
	"net/http"

	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/examples/shop/service"
)

// consoleAt is the path of the console.
const consoleAt = "/console"

// sources returns the databases of the six services for the console.
func (s *shop[TTx]) sources(ctx context.Context) (map[string]console.Source, error) {
	out := map[string]console.Source{}
	for _, name := range service.Names() {
		home, err := s.Home(ctx, name)
		if err != nil {
			return nil, err
		}
		out[name] = console.NewSource(home.Store).WithFlags(s.Flags(name))
	}
	return out, nil
}

// pages returns a handler for orders and for the console of the six databases. When actions is done, bulk
// actions of the console end.
func (c *crew) pages(actions context.Context, orders http.Handler) (http.Handler, error) {
	all, err := c.site.sources(actions)
	if err != nil {
		return nil, fmt.Errorf("open the databases for the console: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", orders)
	mux.Handle(consoleAt+"/", console.New(consoleAt, all,
		&console.Options{Local: c.o.Operator, Actions: actions, Logger: c.o.Logger}))
	return mux, nil
}
