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

// ReadByOptions of a ReadBy. The zero value is for what skald debezium config prints.
type ReadByOptions struct {
	Slot        string // the replication slot that is read. Default skald_debezium
	Publication string // of the outbox, from which it is read. Default skald_debezium
	// Trust takes it, once, that the slot has had, or will have, every row that the positions do not show:
	// its reader was there before this one looked.
	Trust bool
}

// ReadBy is a store as the source of a relay that publishes nothing but rows that were deferred: somebody
// else reads the outbox from a replication slot, Debezium for one. It moves the positions of the shards to
// where that reader has confirmed the slot, so that the retention, the backlog and all that tells of it know
// what is published. Where a relay that publishes works, this one stands by.
//
// A position moves to a snapshot under two conditions. The slot has confirmed a place of the WAL that was
// read after the snapshot. And each row above the old position is in the slot's stream: the position was
// taken next to this slot, or the row's transaction began after the slot was seen. Otherwise the positions
// stay, and Listening returns the reason.
type ReadBy struct {
	*core
	follower *wal.Follower
	named    endpoint.Wire
}

// ReadBy is s as the source of such a relay. Its user must see whose session reads the slot: it is that
// session's, or has pg_read_all_stats, which pg_monitor includes.
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

// String names the server, the database and the schema.
func (r *ReadBy) String() string { return endpoint.DriverName(r.named) }

// Unencrypted names the hosts that may be spoken to without TLS.
func (r *ReadBy) Unencrypted() []string { return r.named.Unencrypted() }

// Listen logs why positions stay, until ctx is done.
func (r *ReadBy) Listen(ctx context.Context, log *slog.Logger) { r.follower.Listen(ctx, log) }

// Listening returns why positions stay.
func (r *ReadBy) Listening() store.Listening { return r.follower.Listening() }

// Pull finds nothing: what is in a window was read by the slot's reader. It looks whether the window is
// there.
func (r *ReadBy) Pull(ctx context.Context, w store.Window, most int) (store.Page, error) {
	return r.follower.Pull(ctx, w, most)
}

// Lease is the store's; what it answers to a look is the end of a window of which all was read. A window that
// a relay has left half published is not open here: the slot may not have its rows.
func (r *ReadBy) Lease(ctx context.Context, ask store.Ask) (store.Leased, error) {
	return r.follower.Lease(ctx, ask)
}
