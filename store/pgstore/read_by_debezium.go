package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"regexp"

	"github.com/skald-go/skald/internal/endpoint"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/wal"
)

// ReadByOptions configures a ReadBy. The zero value fits the output of skald debezium config.
type ReadByOptions struct {
	Slot        string // the replication slot to follow. Default skald_debezium
	Publication string // the slot's publication of the outbox. Default skald_debezium
	// Trust assumes, once, that the reader of the slot receives every row above the stored positions. Set it
	// only if the slot existed before these rows were written.
	Trust bool
}

// ReadBy is the source of a relay for an outbox that another program, for example Debezium, reads from a
// replication slot. The relay publishes only deferred rows. It moves the positions of the shards to the
// position that the slot has confirmed, so that retention and backlog are correct. While a relay that
// publishes runs, this relay is a standby.
type ReadBy struct {
	*core
	follower *wal.Follower
	named    endpoint.Wire
}

// ReadBy returns s as the source of a relay for an outbox that another program reads. The database user must
// see the session that reads the slot: it owns that session, or has pg_read_all_stats or pg_monitor. ReadBy
// returns an error for an invalid name of a slot.
func (s *Store) ReadBy(o *ReadByOptions) (*ReadBy, error) {
	var at ReadByOptions
	if o != nil {
		at = *o
	}
	at.Slot, at.Publication = cmp.Or(at.Slot, wal.DefaultPublication),
		cmp.Or(at.Publication, wal.DefaultPublication)
	if !regexp.MustCompile(`^[a-z0-9_]{1,63}$`).MatchString(at.Slot) {
		return nil, fmt.Errorf(
			"read by: %q cannot be a slot's name: 1 to 63 lower-case letters, digits and underscores",
			at.Slot)
	}
	return s.readBy(wal.FollowerOptions{Slot: at.Slot, Publication: at.Publication, Trust: at.Trust}), nil
}

func (s *Store) readBy(o wal.FollowerOptions) *ReadBy {
	return &ReadBy{core: s.core, follower: wal.NewFollower(s.pg, s.outbox, o), named: s}
}

var _ endpoint.Wire = (*ReadBy)(nil)

// String returns the server, the database and the schema.
func (r *ReadBy) String() string { return endpoint.DriverName(r.named) }

// Unencrypted returns the hosts that the store may connect to without TLS.
func (r *ReadBy) Unencrypted() []string { return r.named.Unencrypted() }

// Listen logs each reason why the positions do not move, until ctx is done.
func (r *ReadBy) Listen(ctx context.Context, log *slog.Logger) { r.follower.Listen(ctx, log) }

// Listening returns the reason why the positions do not move.
func (r *ReadBy) Listening() store.Listening { return r.follower.Listening() }

// Pull checks that the window exists. It returns no rows, because the reader of the slot publishes them.
func (r *ReadBy) Pull(ctx context.Context, w store.Window, most int) (store.Page, error) {
	return r.follower.Pull(ctx, w, most)
}

// Lease takes, renews and releases shards. If the request asks for a new window, Lease returns a window with
// only rows that the reader of the slot has confirmed. Lease does not open a window that a publishing relay
// left half published, because the slot may not have its rows.
func (r *ReadBy) Lease(ctx context.Context, ask store.LeaseRequest) (store.Leased, error) {
	return r.follower.Lease(ctx, ask)
}
