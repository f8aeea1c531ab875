package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// reserve reserves an idempotency key in its own transaction.
func reserve(ctx context.Context, run *sqlexec.DB, r store.Reservation) (out store.Reserved, err error) {
	err = run.Alone(ctx, func(ctx context.Context, x *sqlexec.Session) (err error) {
		out, err = markReserve(ctx, x, r)
		return err
	})
	if err != nil {
		return store.Reserved{}, sqlexec.Failed("reserve", err)
	}
	return out, nil
}

func markReserve(ctx context.Context, x *sqlexec.Session, r store.Reservation) (out store.Reserved,
	err error) {
	if err := expire(ctx, x, r.Consumer, r.Identity, r.Keep); err != nil {
		return out, err
	}
	err = find(ctx, x, r.Consumer, r.Identity, &out.Verdict)
	if !errors.Is(err, sql.ErrNoRows) {
		return out, err
	}
	var old bool
	if at := timeInID(r.ID); at != nil {
		if err := x.Row(ctx, "Forgotten", r.Consumer, at).Scan(&old); err != nil {
			return out, err
		}
	}
	if old {
		out.Outcome = store.TooOld
		return out, nil
	}
	fingerprint := sql.NullInt64{Int64: r.Fingerprint, Valid: r.Fingerprint != 0}
	n, err := x.Count(ctx, "Reserve", r.Consumer, r.Source, r.ID, fingerprint, r.Token,
		sqlexec.Milliseconds(r.Lease))
	if err != nil || n == 1 {
		return out, err
	}
	var left int64
	err = x.Row(ctx, "FindReservation", r.Consumer, r.Source, r.ID, r.Token).
		Scan(&out.Rival, &out.Fingerprint, &left)
	if !out.Rival { // the reservation has the token of r: the result of an earlier call was lost
		return store.Reserved{}, err
	}
	out.Left = time.Duration(left) * time.Millisecond
	return out, err
}

// unreserve releases the reservation r. It fails if r no longer exists.
func unreserve(ctx context.Context, x *sqlexec.Session, r *store.Reservation) error {
	if r == nil {
		return nil
	}
	n, err := x.Count(ctx, "Unreserve", r.Consumer, r.Source, r.ID, r.Token)
	if err == nil && n != 1 {
		err = store.ErrLost
	}
	if err != nil {
		return fmt.Errorf("release the reservation of %s: %w", r.ID, err)
	}
	return nil
}
