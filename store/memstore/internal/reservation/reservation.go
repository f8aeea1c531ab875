// Package reservation is the keys in memory that work outside of a transaction has in hand, each by a lease.
// It is data alone: whoever calls holds the locks of the keys, and nothing here waits.
package reservation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore/internal/mark"
)

// Reservations are all that are there, held or expired.
type Reservations struct{ rows map[Key]row }

type (
	// A Key is what a reservation is locked by: the mark that there will be.
	Key mark.Key
	// A row is whose a key is, and until when.
	row struct {
		token       string
		fingerprint int64
		at, until   time.Time
	}
)

// KeyOf is the key of r.
func KeyOf(r *store.Reservation) Key { return Key{r.Consumer, r.Identity} }

// New has no reservations.
func New() *Reservations { return &Reservations{map[Key]row{}} }

// Take takes a key by lease, unless a rival has it.
func (rs *Reservations) Take(r *store.Reservation, now time.Time) (out store.Reserved) {
	was, taken := rs.rows[KeyOf(r)]
	if left := was.until.Sub(now); taken && left > 0 && was.token == r.Token {
		return out // it was asked for before, and that answer was lost
	} else if taken && left > 0 {
		out.Rival, out.Left, out.Fingerprint = true, left, was.fingerprint
		return out
	}
	rs.rows[KeyOf(r)] = row{r.Token, r.Fingerprint, now, now.Add(r.Lease)}
	return out
}

// Mine is the guard of giving r back: it still has the key.
func (rs *Reservations) Mine(r *store.Reservation) error {
	if was, taken := rs.rows[KeyOf(r)]; !taken || was.token != r.Token {
		return fmt.Errorf("give %s back: %w", r.ID, store.ErrLost)
	}
	return nil
}

// Give gives a key back.
func (rs *Reservations) Give(key Key) { delete(rs.rows, key) }

// Forget removes those that expired before.
func (rs *Reservations) Forget(before time.Time) {
	maps.DeleteFunc(rs.rows, func(_ Key, r row) bool { return r.until.Before(before) })
}

// Count counts reservations, by consumer.
func (rs *Reservations) Count(now time.Time) (out []store.ReservedCounts) {
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
func (rs *Reservations) List(consumer string, limit int, now time.Time) (out []store.ReservedKey) {
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
