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

// WALOptions configures a WAL. The zero value works.
type WALOptions struct {
	// Slot is the name of the replication slot and of its publication. Missing ones are created. Each
	// schema needs its own. Default skald_<database>_<schema>.
	Slot string
	// BeforeConnect may change the settings of a connection, such as a short-lived password. Default the
	// pool's, if url is empty.
	BeforeConnect func(context.Context, *pgx.ConnConfig) error
}

// WAL is the source of a relay that is notified of commits by a logical replication slot, so it does not
// poll. It reads the rows from the table, in the order and with the positions of any other relay. If the
// slot fails, the relay polls meanwhile and loses nothing. Of several relays with one slot, one reads it
// and owns all shards; the others are standbys.
type WAL struct {
	*core
	reader *wal.Reader
	named  endpoint.Wire
}

// WAL returns s as the source of one relay, with a connection of its own to url. The connection must reach
// the server directly, without a pooler, as a role with REPLICATION. An empty url connects as the pool
// does.
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

// String returns the server, the database and the schema.
func (w *WAL) String() string { return endpoint.DriverName(w.named) }

// Unencrypted returns the hosts that may be reached without TLS.
func (w *WAL) Unencrypted() []string { return append(w.named.Unencrypted(), w.reader.Unencrypted()...) }

// Listen reads the slot until ctx is done; a relay's Run calls it. While it cannot read, it logs that once
// and tries again every few seconds, and the relay polls.
func (w *WAL) Listen(ctx context.Context, log *slog.Logger) { w.reader.Listen(ctx, log) }

// Listening returns the state of the notifications. It is safe for concurrent use.
func (w *WAL) Listening() store.Listening { return w.reader.Listening() }

// Lease does as the store's. It also records the rows that its looks found, and checks that the stream is
// complete.
func (w *WAL) Lease(ctx context.Context, ask store.LeaseRequest) (store.Leased, error) {
	return w.reader.Lease(ctx, ask)
}
