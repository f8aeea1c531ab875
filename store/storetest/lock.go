package storetest

import (
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/skald-go/skald/store"
)

func lockTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Versions":       (*suite[TTx]).lockVersions,
		"Many":           (*suite[TTx]).lockMany,
		"Names":          (*suite[TTx]).lockNames,
		"RepeatOfANo":    (*suite[TTx]).lockRepeatOfRejection,
		"RivalWaits":     (*suite[TTx]).lockRivalWaits,
		"FirstOfTwo":     (*suite[TTx]).lockFirstOfTwo,
		"NoCircle":       (*suite[TTx]).lockNoCircle,
		"InUnitAndAfter": (*suite[TTx]).lockInUnitAndAfter,
		"Waiting":        (*suite[TTx]).lockWaiting,
	}
}

// lockKeys locks keys in a unit. It fails the test unless the keys have the versions in want.
func (s *suite[TTx]) lockKeys(keys []string, want ...int64) store.Unit[TTx] {
	s.Helper()
	u := s.begin(s.d, locking(keys...))
	if got := u.Found().Locks; !slices.Equal(got, want) {
		s.Fatalf("%v have the versions %v, want %v", keys, got, want)
	}
	return u
}

func lockAt(key string, version int64) store.Effect {
	return store.Effect{Locks: []store.Lock{{Space: "order", Key: key, Version: version}}}
}

func (s *suite[TTx]) lockVersions() {
	a := []string{"a"}
	s.rollback(s.lockKeys(a, 1))
	s.commit(s.lockKeys(a, 1))
	s.commit(s.lockKeys(a, 2))
	s.rollback(s.lockKeys(a, 3))
	s.apply(lockAt("a", 0)) // without a guard it still raises the version
	s.commit(s.lockKeys(a, 4))
	s.applied([]bool{false, false, true, false, true}, lockAt("a", 4), lockAt("a", 6), lockAt("a", 5),
		lockAt("a", 5), lockAt("b", 1))
	s.commit(s.lockKeys([]string{"b", "a"}, 2, 6))
}

func (s *suite[TTx]) lockMany() {
	s.apply(lockAt("b", 0), lockAt("d", 0), lockAt("d", 0))
	s.commit(s.lockKeys([]string{"d", "a", "c", "b"}, 3, 1, 1, 2))
	// raised once, even if it is listed twice
	s.commit(s.lockKeys([]string{"b", "d", "b", "x", "x"}, 3, 4, 3, 1, 1))
	s.rollback(s.lockKeys([]string{"a", "b", "c", "d", "x"}, 2, 4, 2, 5, 2))
	var keys []string
	var want []int64
	for i := range 300 {
		keys, want = append(keys, "many-"+string(rune('a'+i))), append(want, 1)
	}
	s.commit(s.lockKeys(keys, want...))
	slices.Reverse(keys)
	for i := range want {
		want[i] = 2
	}
	s.commit(s.lockKeys(keys, want...))
}

func (s *suite[TTx]) lockNames() {
	in := store.Intake{Wait: patience, Locks: []store.Lock{
		{Space: "a", Key: "bc"}, {Space: "ab", Key: "c"}, {Space: "", Key: "abc"}, {Space: "abc", Key: ""},
		{Space: "größe ☃", Key: "'\"\\ %s"}, {Space: "A", Key: "bc"}, {Space: "a", Key: "bc "},
		{Space: "a/b", Key: "c"}, {Space: "a", Key: "b/c"},
	}}
	for version := range int64(2) {
		u := s.begin(s.d, in)
		for i, got := range u.Found().Locks {
			if got != version+1 {
				s.Errorf("%+v has version %d, want %d", in.Locks[i], got, version+1)
			}
		}
		s.commit(u)
	}
}

// lockRepeatOfRejection checks a refusal that is rolled back and written in a second transaction. It is
// stored only if the entity is unchanged.
func (s *suite[TTx]) lockRepeatOfRejection() {
	m := mark()
	no := rejected(m, "out of stock")
	u := s.begin(s.d, store.Intake{Marks: []store.Mark{m}, Locks: []store.Lock{{Space: "order", Key: "a"}}})
	e := lockAt("a", u.Found().Locks[0])
	e.Mark, e.Rows = &no, rows(message("a", 1)).Rows
	s.rollback(u)
	s.apply(lockAt("a", 0)) // a rival changes the stock
	s.applied([]bool{false}, e)
	s.wantCounts(0, 0, 0)
	s.rollback(s.lockKeys([]string{"a"}, 2))
	e.Locks[0].Version = 2
	s.apply(e)
	s.wantCounts(1, 1, 0)
	s.rollback(s.lockKeys([]string{"a"}, 3))
}

func (s *suite[TTx]) lockRivalWaits() {
	for i, end := range []func(store.Unit[TTx]){func(u store.Unit[TTx]) { s.commit(u) }, s.rollback} {
		holder := s.begin(s.db.Driver(s), locking("a"))
		want := []int64{2, 2}[i]
		var u store.Unit[TTx]
		var err error
		came := meanwhile(func() { u, err = s.d.Begin(s.Context(), locking("a")) })
		s.wantBlocked(came, "a rival for the lock")
		end(holder)
		s.comes(came, "the lock")
		s.ok(err, "the rival's begin")
		if got := u.Found().Locks[0]; got != want {
			s.Fatalf("the rival has version %d, want %d", got, want)
		}
		s.rollback(u)
	}
}

// lockFirstOfTwo checks that two concurrent locks of the same new entity get versions 1 and 2.
func (s *suite[TTx]) lockFirstOfTwo() {
	var wg sync.WaitGroup
	versions := make([]int64, 8)
	for i := range versions {
		d := s.db.Driver(s)
		wg.Go(func() {
			u, err := d.Begin(s.Context(), locking("a"))
			if err != nil {
				s.Errorf("begin: %v", err)
				return
			}
			versions[i] = u.Found().Locks[0]
			if err := u.Commit(s.Context()); err != nil {
				s.Errorf("commit: %v", err)
			}
		})
	}
	wg.Wait()
	slices.Sort(versions)
	if want := []int64{1, 2, 3, 4, 5, 6, 7, 8}; !slices.Equal(versions, want) {
		s.Errorf("the rivals had the versions %v", versions)
	}
}

// lockNoCircle checks that the driver orders locks, so that intakes cannot deadlock.
func (s *suite[TTx]) lockNoCircle() {
	marks := []store.Mark{mark(), mark(), mark(), mark()}
	keys := []string{"a", "b", "c", "d"}
	var wg sync.WaitGroup
	for range 4 {
		d := s.db.Driver(s)
		wg.Go(func() {
			for range 20 {
				in := store.Intake{Wait: patience}
				for _, i := range rand.Perm(4)[:1+rand.IntN(4)] {
					in.Marks = append(in.Marks, marks[i])
				}
				for _, i := range rand.Perm(4)[:1+rand.IntN(4)] {
					in.Locks = append(in.Locks, store.Lock{Space: "order", Key: keys[i]})
				}
				u, err := d.Begin(s.Context(), in)
				if err != nil {
					s.Errorf("begin: %v", err)
					return
				}
				_, _ = u.Rollback(s.Context())
			}
		})
	}
	wg.Wait()
}

// lockInUnitAndAfter checks that the version of an entity which a unit has locked is raised once, even if the
// commit lists the entity again.
func (s *suite[TTx]) lockInUnitAndAfter() {
	s.commit(s.lockKeys([]string{"a"}, 1), lockAt("a", 1), lockAt("a", 0))
	s.wantError(s.lockKeys([]string{"a"}, 2).Commit(s.Context(), lockAt("a", 1)), store.ErrLost, "commit")
	s.rollback(s.lockKeys([]string{"a"}, 2))
}

// lockWaiting checks that an effect waits for a rival, and loses its guard if the rival changed the entity.
func (s *suite[TTx]) lockWaiting() {
	m := mark()
	holder := s.begin(s.db.Driver(s), store.Intake{Marks: []store.Mark{m},
		Locks: []store.Lock{{Space: "order", Key: "a"}}})
	var stored []bool
	var err error
	came := meanwhile(func() {
		stored, err = s.d.Apply(s.Context(), lockAt("a", 1), store.Effect{Mark: &m}, rows(message("a", 1)))
	})
	s.wantBlocked(came, "an effect on a rival's lock")
	s.commit(holder)
	s.comes(came, "the effects")
	s.ok(err, "apply")
	if want := []bool{false, false, true}; !slices.Equal(stored, want) {
		s.Errorf("stored %v, want %v", stored, want)
	}
}
