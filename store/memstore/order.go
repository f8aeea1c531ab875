package memstore

import (
	"cmp"
	"slices"

	"github.com/skald-go/skald/store"
)

// order returns the indices of list, in stable order by compare.
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
