package sqlexec

import "slices"

// Order returns the indices of list in stable sorted order. Transactions that lock rows in the same order
// cannot deadlock.
func Order[T any](list []T, compare func(a, b T) int) []int {
	idx := make([]int, len(list))
	for i := range idx {
		idx[i] = i
	}
	if len(list) > 1 {
		slices.SortStableFunc(idx, func(i, j int) int { return compare(list[i], list[j]) })
	}
	return idx
}
