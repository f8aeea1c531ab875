package sqlexec

import "slices"

// Order is the indices of list, stably sorted: intakes that take in the same order never wait in a circle.
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
