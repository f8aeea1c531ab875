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
	// Slot is the name of the replication slot and of its publication. The relay creates both if they are
	// missing. Each schema needs its own slot. Default skald_<database>_<schema>.
	Slot string
	// BeforeConnect may change the settings of a connection, such as a short-lived password. Default is
	// BeforeConnect of the pool, if url is empty.
	BeforeConnect func(context.Context, *pgx.ConnConfig) error
}

// WAL is the source of a relay that does not poll: a logical replication slot notifies it of commits. The
// relay still reads the rows from the table, in the same order and with the same positions as a relay that
// polls. While the slot fails, the relay polls and loses nothing. If several relays use one slot, one of them
// reads the slot and owns all shards; the others are standbys.
type WAL struct {
	*core
	reader *wal.Reader
	named  endpoint.Wire
}

// WAL returns s as the source of one relay, with a connection of its own to url. The connection must reach
// the server directly, without a pooler, as a role with REPLICATION. If url is empty, WAL uses the settings
// of the pool. WAL returns an error for an invalid name of a slot or an invalid url.
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

// Unencrypted returns the hosts that the store may connect to without TLS.
func (w *WAL) Unencrypted() []string { return append(w.named.Unencrypted(), w.reader.Unencrypted()...) }

// Listen reads the slot until ctx is done. The Run of a relay calls it. If Listen cannot read the slot, it
// logs that once and retries every few seconds. Meanwhile the relay polls.
func (w *WAL) Listen(ctx context.Context, log *slog.Logger) { w.reader.Listen(ctx, log) }

// Listening returns the state of the notifications. It is safe for concurrent use.
func (w *WAL) Listening() store.Listening { return w.reader.Listening() }

// Lease takes, renews and releases shards. It also records the commits that the relay has read, and checks
// that the stream of notifications is complete.
func (w *WAL) Lease(ctx context.Context, ask store.LeaseRequest) (store.Leased, error) {
	return w.reader.Lease(ctx, ask)
}
