package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

// Reserve takes a key by lease.
func (s *Store) Reserve(ctx context.Context, r store.Reservation) (out store.Reserved, err error) {
	x, err := s.begin(ctx, s.wait, defaultHandle)
	if err != nil {
		return out, failed("reserve", err)
	}
	out, err = x.reserve(quiet(ctx), r)
	if err != nil {
		err = x.why(err)
		return store.Reserved{}, failed("reserve", errors.Join(err, x.close()))
	}
	defer x.end()
	x.timer.Stop()
	if err := x.commit(); err != nil {
		return store.Reserved{}, failed("reserve", err)
	}
	return out, nil
}

func (x *session) reserve(ctx context.Context, r store.Reservation) (out store.Reserved, err error) {
	if err := x.expire(ctx, r.Consumer, r.Identity, r.Keep); err != nil {
		return out, err
	}
	err = verdict(x.row(ctx, "FindMark", r.Consumer, r.Source, r.ID), &out.Verdict)
	if !errors.Is(err, sql.ErrNoRows) {
		return out, err
	}
	var old bool
	if at := written(r.ID); at != nil {
		if err := x.row(ctx, "Forgotten", r.Consumer, at).Scan(&old); err != nil {
			return out, err
		}
	}
	if old {
		out.Outcome = store.TooOld
		return out, nil
	}
	fingerprint := sql.NullInt64{Int64: r.Fingerprint, Valid: r.Fingerprint != 0}
	n, err := x.count(ctx, "Reserve", r.Consumer, r.Source, r.ID, fingerprint, r.Token,
		r.Lease.Milliseconds())
	if err != nil || n == 1 {
		return out, err
	}
	var left int64
	out.Rival = true
	err = x.row(ctx, "FindReservation", r.Consumer, r.Source, r.ID).Scan(&out.Fingerprint, &left)
	out.Left = time.Duration(left) * time.Millisecond
	return out, err
}

// unreserve gives a key back, if r still has it.
func (x *session) unreserve(ctx context.Context, r *store.Reservation) error {
	if r == nil {
		return nil
	}
	n, err := x.count(ctx, "Unreserve", r.Consumer, r.Source, r.ID, r.Token)
	if err == nil && n != 1 {
		err = store.ErrLost
	}
	if err != nil {
		return fmt.Errorf("give %s back: %w", r.ID, err)
	}
	return nil
}
