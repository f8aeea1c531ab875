package verbs

import (
	"log/slog"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store/pgstore"
)

// listen hears, over one connection, what is written to any of the schemas.
func listen(url string, all []relay.Source, log *slog.Logger) (skald.Runner, error) {
	stores := make([]*pgstore.Store, len(all))
	for i, one := range all {
		h, ok := one.(schemaStore)
		if !ok {
			return nil, &cli.UsageError{What: "--listen: only PostgreSQL tells of what others write"}
		}
		stores[i] = h.Store
	}
	heard, err := pgstore.Listen(url, stores...)
	if err != nil {
		return nil, &cli.UsageError{What: err.Error()}
	}
	heard.BeforeConnect, heard.Logger = connect.AskPassword, log
	return heard, nil
}
