package verbs

import "slices"

// newest collects the newest of many records, up to a limit, and counts all of them.
type newest[T any] struct {
	limit int // 0 keeps all
	order func(a, b *T) int
	all   int
	list  []T
}

// newestBy returns an empty collection. order returns a negative number if a is older than b.
func newestBy[T any](limit int, order func(a, b *T) int) *newest[T] {
	return &newest[T]{limit: limit, order: order}
}

// add adds an entry to the collection. From time to time it drops the oldest entries above the limit.
func (n *newest[T]) add(entry T) {
	n.all++
	if n.list = append(n.list, entry); n.limit > 0 && len(n.list) >= 2*n.limit+1000 {
		n.sort()
	}
}

// sort returns the collected records, newest first.
func (n *newest[T]) sort() []T {
	slices.SortStableFunc(n.list, func(a, b T) int { return n.order(&b, &a) })
	if n.limit > 0 && len(n.list) > n.limit {
		clear(n.list[n.limit:])
		n.list = n.list[:n.limit]
	}
	return n.list
}
