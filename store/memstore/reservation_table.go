// This file has the reservations of keys for work outside of transactions. Its methods need no locks and
// never wait, because the caller has locked the keys.

package memstore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// reservationTable has all reservations, including expired ones.
type reservationTable struct {
	rows map[reservationKey]reservationRow
}

type (
	// reservationKey is the lock of a reservation: the key of its future mark.
	reservationKey markKey
	// reservationRow has the token of a reservation and the end of its lease.
	reservationRow struct {
		token       string
		fingerprint int64
		at, until   time.Time
	}
)

// reservationKeyOf returns the key of r.
func reservationKeyOf(r *store.Reservation) reservationKey {
	return reservationKey{r.Consumer, r.Identity}
}

// newReservation returns an empty table.
func newReservation() *reservationTable {
	return &reservationTable{map[reservationKey]reservationRow{}}
}

// Take reserves a key, unless another caller has it.
func (rs *reservationTable) Take(r *store.Reservation, now time.Time) (out store.Reserved) {
	was, taken := rs.rows[reservationKeyOf(r)]
	if left := was.until.Sub(now); taken && left > 0 && was.token == r.Token {
		return out // the reservation has the token of r: the result of an earlier call was lost
	} else if taken && left > 0 {
		out.Rival, out.Left, out.Fingerprint = true, left, was.fingerprint
		return out
	}
	rs.rows[reservationKeyOf(r)] = reservationRow{r.Token, r.Fingerprint, now, now.Add(r.Lease)}
	return out
}

// CheckOwner returns store.ErrLost if r no longer has its key.
func (rs *reservationTable) CheckOwner(r *store.Reservation) error {
	if was, taken := rs.rows[reservationKeyOf(r)]; !taken || was.token != r.Token {
		return fmt.Errorf("release the reservation of %s: %w", r.ID, store.ErrLost)
	}
	return nil
}

// Release releases a key.
func (rs *reservationTable) Release(key reservationKey) { delete(rs.rows, key) }

// Forget deletes the reservations that expired before the cutoff.
func (rs *reservationTable) Forget(cutoff time.Time) {
	maps.DeleteFunc(rs.rows, func(_ reservationKey, r reservationRow) bool { return r.until.Before(cutoff) })
}

// Count counts reservations, by consumer.
func (rs *reservationTable) Count(now time.Time) (out []store.ReservedCounts) {
	all := map[string]store.ReservedCounts{}
	for key, r := range rs.rows {
		n := all[key.Consumer]
		if r.until.After(now) {
			n.Held++
		} else {
			n.Expired++
		}
		all[key.Consumer] = n
	}
	for _, consumer := range slices.Sorted(maps.Keys(all)) {
		n := all[consumer]
		n.Consumer = consumer
		out = append(out, n)
	}
	return out
}

// List lists the reservations of a consumer; "" means all consumers.
func (rs *reservationTable) List(consumer string, limit int, now time.Time) (out []store.ReservedKey) {
	for key, r := range rs.rows {
		if consumer == "" || consumer == key.Consumer {
			out = append(out, store.ReservedKey{Consumer: key.Consumer, Identity: key.Identity,
				Since: now.Sub(r.at), Left: max(r.until.Sub(now), 0)})
		}
	}
	slices.SortFunc(out, func(a, b store.ReservedKey) int {
		return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.ID, b.ID))
	})
	return out[:min(limit, len(out))]
}
