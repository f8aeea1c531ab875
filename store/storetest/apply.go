package storetest

import (
	"errors"
	"slices"
	"strings"

	"github.com/skald-go/skald/store"
)

func applyTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"LostAlone":     (*suite[TTx]).applyLostAlone,
		"SeesTheFirst":  (*suite[TTx]).applySeesTheFirst,
		"ErrorFailsAll": (*suite[TTx]).applyErrorFailsAll,
	}
}

// applyLostAlone checks that a lost guard undoes only the effect that has the guard, at any place among
// effects of all kinds.
func (s *suite[TTx]) applyLostAlone() {
	one, two := mark(), mark()
	one.ID, two.ID = "one", "two"
	s.apply(store.Effect{Mark: &one})
	lost := rows(message("lost", 1))
	lost.Mark = &one
	second := rows(message("b", 1))
	second.Mark = &two
	s.applied([]bool{true, false, true, false, true}, rows(message("a", 1)), lost, second, lost,
		keeping(parked("k", 1))[0])
	s.wantCounts(2, 2, 0)
	if got := s.kept(store.ParkedQuery{}); len(got) != 1 {
		s.Errorf("parked are %+v", got)
	}
	s.applied([]bool{false, true}, lost, rows(message("a", 2))) // at the start
	s.applied([]bool{true, false}, rows(message("a", 3)), lost) // at the end
	s.applied([]bool{false, false}, lost, second)
	s.wantCounts(4, 2, 0)
}

// applySeesTheFirst checks that an effect reads the changes of earlier effects of the same call, and that
// each one raises its entity.
func (s *suite[TTx]) applySeesTheFirst() {
	p, one := parked("k", 1), mark()
	lock := func() store.Effect { return store.Effect{Locks: []store.Lock{{Space: "stock", Key: "a"}}} }
	again := store.Effect{Mark: &one}
	third := store.Effect{Locks: []store.Lock{{Space: "stock", Key: "a", Version: 3}}}
	s.applied([]bool{true, true, false, true, true, true, true, false},
		again, keeping(p)[0], again, freed(p, nil), lock(), lock(), third, third)
	if got := s.kept(store.ParkedQuery{}); len(got) != 0 {
		s.Errorf("parked are %+v", got)
	}
}

// applyErrorFailsAll checks that a call stores nothing if the store refuses one of its effects.
func (s *suite[TTx]) applyErrorFailsAll() {
	large := rows(message("a", 2))
	large.Rows[0].Type = strings.Repeat("x", 10_000)
	for _, es := range [][]store.Effect{{rows(message("a", 1)), large, rows(message("a", 3))},
		{large, rows(message("a", 1))}} {
		stored, err := s.d.Apply(s.Context(), es...)
		var limit *store.LimitError
		if !errors.As(err, &limit) || slices.Contains(stored, true) {
			s.Errorf("a row that breaks a limit among others: %v, %v", stored, err)
		}
	}
	s.wantCounts(0, 0, 0)
}
