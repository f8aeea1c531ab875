package query

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Reserve reserves an idempotency key for one caller in one round trip. If the key already has a mark, it
// returns the verdict. If another caller has the reservation, it returns Rival.
func (c *Marks) Reserve(ctx context.Context, r store.Reservation) (out store.Reserved, err error) {
	key := []any{sqlexec.Name(r.Consumer), sqlexec.Name(r.Source), sqlexec.Name(r.ID)}
	written := writtenAt(r.ID)
	mine, rival, done, old := false, false, false, false

	find := c.pg.Call("FindMark", key...)
	find.Scan = func(row sqlexec.Scanner) error {
		done = true
		return scanVerdict(row, &out.Verdict)
	}
	var fingerprint, left int64
	look := c.pg.Call("FindReservation", append(key[:3:3], r.Token)...)
	look.Scan = func(row sqlexec.Scanner) error {
		err := row.Scan(&mine, &fingerprint, &left)
		rival = !mine
		return err
	}
	below := c.pg.Call("BelowFloor", key[0], written)
	below.Scan = func(row sqlexec.Scanner) error { return row.Scan(&old) }
	var calls []sqlexec.Call
	if r.Keep > 0 && written == 0 {
		calls = append(calls, c.pg.Call("ExpireMark", key...))
	}
	err = c.pg.Short(ctx, "reserve", append(calls,
		c.pg.Call("Reserve", append(key[:3:3], sqlexec.Number(r.Fingerprint), r.Token, r.Lease.Microseconds(),
			written)...),
		find, c.pg.Call("UnreserveDone", append(key[:3:3], r.Token)...), look, below)...)
	switch {
	case err != nil:
		return store.Reserved{}, err
	case done || mine:
	case old && written > 0:
		out.Outcome = store.TooOld
	default:
		out.Rival = true
		if rival {
			out.Fingerprint, out.Left = fingerprint, time.Duration(left)*time.Millisecond
		}
	}
	return out, nil
}

// GuardReservation returns the call that releases the reservation r. The call fails if r no longer
// exists, because it expired.
func (c *Marks) GuardReservation(r *store.Reservation) []sqlexec.Call {
	if r == nil {
		return nil
	}
	return []sqlexec.Call{c.pg.Call("GuardReservation", sqlexec.Name(r.Consumer), sqlexec.Name(r.Source),
		sqlexec.Name(r.ID), r.Token)}
}
