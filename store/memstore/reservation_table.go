// This file is the keys in memory that work outside of a transaction has in hand, each by a lease.
// It is data alone: whoever calls holds the locks of the keys, and nothing here waits.

package memstore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// reservationTable are all that are there, held or expired.
type reservationTable struct {
	rows map[reservationKey]reservationRow
}

type (
	// A reservationKey is what a reservation is locked by: the mark that there will be.
	reservationKey markKey
	// A reservationRow is whose a key is, and until when.
	reservationRow struct {
		token       string
		fingerprint int64
		at, until   time.Time
	}
)

// reservationKeyOf is the key of r.
func reservationKeyOf(r *store.Reservation) reservationKey {
	return reservationKey{r.Consumer, r.Identity}
}

// newReservation has no reservations.
func newReservation() *reservationTable {
	return &reservationTable{map[reservationKey]reservationRow{}}
}

// Take takes a key by lease, unless a rival has it.
func (rs *reservationTable) Take(r *store.Reservation, now time.Time) (out store.Reserved) {
	was, taken := rs.rows[reservationKeyOf(r)]
	if left := was.until.Sub(now); taken && left > 0 && was.token == r.Token {
		return out // it was asked for before, and that answer was lost
	} else if taken && left > 0 {
		out.Rival, out.Left, out.Fingerprint = true, left, was.fingerprint
		return out
	}
	rs.rows[reservationKeyOf(r)] = reservationRow{r.Token, r.Fingerprint, now, now.Add(r.Lease)}
	return out
}

// Mine is the guard of giving r back: it still has the key.
func (rs *reservationTable) Mine(r *store.Reservation) error {
	if was, taken := rs.rows[reservationKeyOf(r)]; !taken || was.token != r.Token {
		return fmt.Errorf("release the reservation of %s: %w", r.ID, store.ErrLost)
	}
	return nil
}

// Give gives a key back.
func (rs *reservationTable) Give(key reservationKey) { delete(rs.rows, key) }

// Forget removes those that expired before.
func (rs *reservationTable) Forget(before time.Time) {
	maps.DeleteFunc(rs.rows, func(_ reservationKey, r reservationRow) bool { return r.until.Before(before) })
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

// List lists the reservations of a consumer; "": of all.
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
