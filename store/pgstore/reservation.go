package pgstore

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
)

// Reserve takes a key by lease: one round trip.
func (c *core) Reserve(ctx context.Context, r store.Reservation) (out store.Reserved, err error) {
	key := []any{name(r.Consumer), name(r.Source), name(r.ID)}
	written := writtenAt(r.ID)
	mine, rival, done, old := false, false, false, false

	find := c.call("FindMark", key...)
	find.scan = func(row scanner) error {
		done = true
		return verdict(row, &out.Verdict)
	}
	var fingerprint, left int64
	look := c.call("FindReservation", append(key[:3:3], r.Token)...)
	look.scan = func(row scanner) error {
		err := row.Scan(&mine, &fingerprint, &left)
		rival = !mine
		return err
	}
	below := c.call("BelowFloor", key[0], written)
	below.scan = func(row scanner) error { return row.Scan(&old) }
	var calls []call
	if r.Keep > 0 && written == 0 {
		calls = append(calls, c.call("ExpireMark", key...))
	}
	err = c.short(ctx, "reserve", append(calls,
		c.call("Reserve", append(key[:3:3], number(r.Fingerprint), r.Token, r.Lease.Microseconds(), written)...),
		find, c.call("UnreserveDone", append(key[:3:3], r.Token)...), look, below)...)
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

// guardReservation are the calls that give a key back, or raise.
func (c *core) guardReservation(r *store.Reservation) []call {
	if r == nil {
		return nil
	}
	return []call{c.call("GuardReservation", name(r.Consumer), name(r.Source), name(r.ID), r.Token)}
}
