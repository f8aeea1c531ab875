package pgstore

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/endpoint"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/wal"
)

// WALOptions of a WAL. The zero value works.
type WALOptions struct {
	// Slot is the replication slot to read, and the publication of the same name. Both are made where they
	// are missing. Each schema needs its own. Default skald_<database>_<schema>.
	Slot string
	// BeforeConnect may change what is connected with, such as a password that lasts for minutes only.
	// Default the pool's, where the connection is as the pool's.
	BeforeConnect func(context.Context, *pgx.ConnConfig) error
}

// WAL is a store as the source of a relay that hears of commits from a logical replication slot, and so
// does not look at the table while nothing is committed. Rows are read from the table, in the order and with
// the positions of any other relay: whatever happens to the slot, its relay looks as others do meanwhile, and
// loses nothing. Of several relays with one slot one reads it and holds all shards; the others stand by.
type WAL struct {
	*core
	reader *wal.Reader
	named  endpoint.Wire
}

// WAL is s as the source of one relay that hears of commits, over a connection of its own to url: to the
// server itself, no pooler's, as a role with REPLICATION. An empty url is as the pool connects.
func (s *Store) WAL(url string, o *WALOptions) (*WAL, error) {
	var at WALOptions
	if o != nil {
		at = *o
	}
	if at.Slot != "" && !regexp.MustCompile(`^[a-z0-9_]{1,63}$`).MatchString(at.Slot) {
		return nil,
			fmt.Errorf("wal: %q cannot be a slot's name: 1 to 63 lower-case letters, digits and underscores",
				at.Slot)
	}
	var config *pgx.ConnConfig
	if url == "" {
		is := s.pool.Config()
		if config = is.ConnConfig; at.BeforeConnect == nil {
			at.BeforeConnect = is.BeforeConnect
		}
	} else {
		var err error
		if err = endpoint.CheckPostgres(url); err == nil {
			config, err = pgx.ParseConfig(url)
		}
		if err != nil {
			return nil, fmt.Errorf("wal: %w", err)
		}
	}
	reader := wal.NewReader(s.core.pg, s.core.outbox, s.waker.Here, config, wal.ReaderOptions(at))
	return &WAL{core: s.core, reader: reader, named: s}, nil
}

var _ endpoint.Wire = (*WAL)(nil)

// String names the server, the database and the schema.
func (w *WAL) String() string { return endpoint.DriverName(w.named) }

// Unencrypted names the hosts that may be spoken to without TLS.
func (w *WAL) Unencrypted() []string { return append(w.named.Unencrypted(), w.reader.Unencrypted()...) }

// Listen reads the slot until ctx is done; a relay's Run calls it. While that cannot be, it says so once and
// tries again every few seconds, and commits are found by looking.
func (w *WAL) Listen(ctx context.Context, log *slog.Logger) { w.reader.Listen(ctx, log) }

// Listening returns the state of the notifications. It is safe for concurrent use.
func (w *WAL) Listening() store.Listening { return w.reader.Listening() }

// Lease is the store's. By the way it learns what its looks have seen, and whether the stream still tells of
// everything.
func (w *WAL) Lease(ctx context.Context, ask store.Ask) (store.Leased, error) {
	return w.reader.Lease(ctx, ask)
}
