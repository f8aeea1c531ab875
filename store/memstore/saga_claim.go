package memstore

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// Claim leases sagas that are due and not locked.
func (ss *sagaTable) Claim(w store.Want, locked locked, now time.Time) (out store.Claimed) {
	bytes := 0
	out.Next = -1
	for _, s := range ss.due(w.Sagas.Hashes) {
		at := sagaKeyOf(s.Name, s.Key)
		switch {
		case s.Due.After(now):
			out.Next = soonest(out.Next, s.Due.Sub(now))
			return out
		case locked(at):
			out.Next = sagarow.Skipped
			continue
		case len(out.Sagas) == w.Sagas.Limit,
			len(out.Sagas) > 0 && bytes+sagarow.Bytes(&s) > sagarow.MaxClaim:
			out.Next = 0
			return out
		}
		bytes += sagarow.Bytes(&s)
		lapsed := s.Session
		s.Version, s.Session, s.Due = s.Version+1, w.Session, now.Add(w.Lease)
		ss.rows[at] = s
		s.Lapsed = lapsed
		out.Sagas = append(out.Sagas, s)
	}
	return out
}

// soonest is the smaller of two times, of which a negative one is none.
func soonest(a, b time.Duration) time.Duration {
	if a < 0 {
		return b
	}
	return min(a, b)
}

// due are the sagas of those definitions that are due at some time, the first due first.
func (ss *sagaTable) due(hashes []string) (out []store.Saga) {
	for _, s := range ss.rows {
		if !s.Due.IsZero() && slices.Contains(hashes, s.Hash) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b store.Saga) int { return cmp.Or(a.Due.Compare(b.Due), byKey(a, b)) })
	return out
}

// Forget removes sagas that ended before, and are not locked.
func (ss *sagaTable) Forget(before time.Time, locked locked) int64 {
	was := len(ss.rows)
	maps.DeleteFunc(ss.rows,
		func(at sagaKey, s store.Saga) bool { return !locked(at) && ss.outlived(&s, before) })
	return int64(was - len(ss.rows))
}

// Leaving is how many sagas Forget would remove, if none were locked.
func (ss *sagaTable) Leaving(before time.Time) (n int64) {
	for _, s := range ss.rows {
		n += sagaOne(ss.outlived(&s, before))
	}
	return n
}

// outlived tells of a saga that ended before, and that no parent may undo yet.
func (ss *sagaTable) outlived(s *store.Saga, before time.Time) bool {
	if s.Ended.IsZero() || !s.Ended.Before(before) {
		return false
	}
	name, key, id := sagarow.Parent(s.Origin)
	parent, there := ss.rows[sagaKeyOf(name, key)]
	return !there || parent.ID != id || !parent.Ended.IsZero()
}

func sagaOne(so bool) int64 {
	if so {
		return 1
	}
	return 0
}
