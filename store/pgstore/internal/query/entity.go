// This file has the entities that messages lock: one row each, with a version that every lock raises.

package query

import (
	"cmp"
	"fmt"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Entities has the entities of one database.
type Entities struct{ pg *sqlexec.DB }

// NewEntity returns the entities of pg.
func NewEntity(pg *sqlexec.DB) *Entities { return &Entities{pg} }

// Locked has the versions of the entities that a transaction has locked, by space and key. A transaction
// raises a version once. 0 means that the client does not have the version.
type Locked map[[2]string]int64

func byEntity(a, b store.Lock) int {
	return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Key, b.Key))
}

func args(l store.Lock) []any { return []any{sqlexec.Name(l.Space), sqlexec.Key(l.Key)} }

// LockedBy returns the entities that an intake has locked.
func LockedBy(in store.Intake, found store.Found) Locked {
	if len(in.Locks) == 0 {
		return nil
	}
	out := Locked{}
	for i, l := range in.Locks {
		out[[2]string{l.Space, l.Key}] = found.Locks[i]
	}
	return out
}

// Take adds one call for each entity to the given calls. The call locks the entity and stores its version in
// versions.
func (c *Entities) Take(calls []sqlexec.Call, locks []store.Lock, versions []int64) []sqlexec.Call {
	last := -1
	for _, i := range sqlexec.Order(locks, byEntity) {
		if last >= 0 && byEntity(locks[last], locks[i]) == 0 {
			first, again := &versions[last], &versions[i]
			calls[len(calls)-1].Scan = chain(calls[len(calls)-1].Scan, func() { *again = *first })
			continue
		}
		last = i
		calls = append(calls, c.pg.Call("LockEntity", args(locks[i])...).Into(&versions[i]))
	}
	return calls
}

// chain returns a scan function that calls scan and then f for each row.
func chain(scan func(sqlexec.Scanner) error, f func()) func(sqlexec.Scanner) error {
	return func(row sqlexec.Scanner) error {
		if err := scan(row); err != nil {
			return err
		}
		f()
		return nil
	}
}

// TakeMany returns the call that locks each entity once and stores the result in versions.
func (c *Entities) TakeMany(locks []store.Lock, versions []int64) []sqlexec.Call {
	if len(locks) == 0 {
		return nil
	}
	var spaces []string
	var keys [][]byte
	places := map[[2]string][]int{}
	for _, i := range sqlexec.Order(locks, byEntity) {
		space, key := sqlexec.Name(locks[i].Space), sqlexec.Key(locks[i].Key)
		e := [2]string{space, string(key)}
		if places[e] == nil {
			spaces, keys = append(spaces, space), append(keys, key)
		}
		places[e] = append(places[e], i)
	}
	lock := c.pg.Call("LockEntities", spaces, keys)
	lock.Scan = func(row sqlexec.Scanner) error {
		var space string
		var key sqlexec.Blob
		var version int64
		if err := row.Scan(&space, &key, &version); err != nil {
			return err
		}
		for _, i := range places[[2]string{space, string(key)}] {
			versions[i] = version
		}
		return nil
	}
	return []sqlexec.Call{lock}
}

// Guard returns the calls that lock the entities that are not locked yet, and adds them to locked. The calls
// fail if an entity does not have the expected version. The version 0 allows any version.
func (c *Entities) Guard(locks []store.Lock, locked *Locked) ([]sqlexec.Call, error) {
	var calls []sqlexec.Call
	for _, i := range sqlexec.Order(locks, byEntity) {
		l := locks[i]
		key := [2]string{l.Space, l.Key}
		version, again := (*locked)[key]
		switch {
		case again && (l.Version == 0 || l.Version == version):
			continue
		case again && version != 0:
			return nil, fmt.Errorf("lock %s %s is at %d, not %d: %w", l.Space, l.Key, version, l.Version,
				store.ErrLost)
		case again:
			calls = append(calls, c.pg.Call("CheckEntity", append(args(l), l.Version)...))
		case l.Version == 0:
			calls = append(calls, c.pg.Call("LockEntity", args(l)...))
		default:
			calls = append(calls, c.pg.Call("GuardEntity", append(args(l), l.Version)...))
		}
		if *locked == nil {
			*locked = Locked{}
		}
		(*locked)[key] = l.Version
	}
	return calls, nil
}
