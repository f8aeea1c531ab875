package verbs

import (
	"log/slog"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store/pgstore"
)

// listen returns a runner that listens for writes to the schemas of all sources, over one connection, and
// notifies the relays.
func listen(url string, sources []relay.Source, log *slog.Logger) (skald.Runner, error) {
	stores := make([]*pgstore.Store, len(sources))
	for i, one := range sources {
		h, ok := one.(schemaStore)
		if !ok {
			return nil, &cli.UsageError{What: "--listen: only PostgreSQL notifies of writes"}
		}
		stores[i] = h.Store
	}
	listener, err := pgstore.Listen(url, stores...)
	if err != nil {
		return nil, &cli.UsageError{What: err.Error()}
	}
	listener.BeforeConnect, listener.Logger = connect.AskPassword, log
	return listener, nil
}
