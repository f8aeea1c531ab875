package memstore

import (
	"cmp"
	"slices"

	"github.com/skald-go/skald/store"
)

// order returns the indices of list, sorted stably by compare.
func order[T any](list []T, compare func(a, b T) int) []int {
	idx := make([]int, len(list))
	for i := range idx {
		idx[i] = i
	}
	slices.SortStableFunc(idx, func(i, j int) int { return compare(list[i], list[j]) })
	return idx
}

func byEntity(a, b store.Lock) int {
	return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Key, b.Key))
}

// takingOrder returns the order in which to insert marks. It is the order of the messages, so that the
// numbers in Arrival have the same order. If a mark has no lock of its key, the order is sorted instead, so
// that two intakes cannot deadlock.
func takingOrder(marks []store.Mark) []int {
	anytime := func(m store.Mark) bool { return m.KeyOrder == store.Anytime }
	sorted := slices.ContainsFunc(marks, anytime)
	return order(marks, func(a, b store.Mark) int {
		if !sorted {
			return 0
		}
		return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.ID, b.ID))
	})
}
