package memstore

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// Claim claims sagas that are due and not locked.
func (ss *sagaTable) Claim(w store.ClaimRequest, locked locked, now time.Time) (out store.Claimed) {
	bytes := 0
	out.Next = -1
	for _, s := range ss.dueSagas(w.Sagas.Hashes) {
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

// soonest returns the shorter of two times. A negative a means that there is only b.
func soonest(a, b time.Duration) time.Duration {
	if a < 0 {
		return b
	}
	return min(a, b)
}

// dueSagas returns the sagas with these hashes of definitions that have a due time, in the order of that
// time.
func (ss *sagaTable) dueSagas(hashes []string) (out []store.Saga) {
	for _, s := range ss.rows {
		if !s.Due.IsZero() && slices.Contains(hashes, s.Hash) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b store.Saga) int { return cmp.Or(a.Due.Compare(b.Due), byKey(a, b)) })
	return out
}

// Forget deletes the sagas that ended before the cutoff and are not locked.
func (ss *sagaTable) Forget(cutoff time.Time, locked locked) int64 {
	was := len(ss.rows)
	maps.DeleteFunc(ss.rows,
		func(at sagaKey, s store.Saga) bool { return !locked(at) && ss.outlived(&s, cutoff) })
	return int64(was - len(ss.rows))
}

// Leaving returns the number of sagas that Forget would delete, if none were locked.
func (ss *sagaTable) Leaving(cutoff time.Time) (n int64) {
	for _, s := range ss.rows {
		n += sagaOne(ss.outlived(&s, cutoff))
	}
	return n
}

// outlived reports whether a saga ended before the cutoff and no parent may still undo it.
func (ss *sagaTable) outlived(s *store.Saga, cutoff time.Time) bool {
	if s.Ended.IsZero() || !s.Ended.Before(cutoff) {
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
