// This file is a table in memory: rows by key, and what a transaction sees of them.

package memstore

import "maps"

// A tableView is a table as a transaction sees it: what is committed, and over it what it wrote itself.
// Nobody else sees that before Commit.
type tableView[K comparable, V any] struct{ under, written map[K]V }

// see is a view of a table that nothing is written in yet.
func see[K comparable, V any](rows map[K]V) tableView[K, V] { return tableView[K, V]{under: rows} }

// Get reads a row.
func (v *tableView[K, V]) Get(key K) (V, bool) {
	if row, mine := v.written[key]; mine {
		return row, true
	}
	row, there := v.under[key]
	return row, there
}

// Put writes a row.
func (v *tableView[K, V]) Put(key K, row V) {
	if v.written == nil {
		v.written = map[K]V{}
	}
	v.written[key] = row
}

// Undo takes back what was written of a row.
func (v *tableView[K, V]) Undo(key K) { delete(v.written, key) }

// Written tells whether anything was.
func (v *tableView[K, V]) Written() bool { return len(v.written) > 0 }

// Commit shows all that was written to everybody.
func (v *tableView[K, V]) Commit() { maps.Copy(v.under, v.written) }

// move gives rows another key: those of which move says so. It looks at a copy: a map that is written may
// show what is new.
func move[K comparable, V any](rows map[K]V, move func(K, V) (K, V, bool)) {
	for key, row := range maps.Clone(rows) {
		if to, as, of := move(key, row); of {
			delete(rows, key)
			rows[to] = as
		}
	}
}
