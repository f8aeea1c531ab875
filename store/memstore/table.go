package memstore

import "maps"

// tableView is a table as one transaction reads it: the committed rows and the writes of the transaction.
// Other transactions do not read these writes before Commit.
type tableView[K comparable, V any] struct{ under, written map[K]V }

// newView returns a view without writes.
func newView[K comparable, V any](rows map[K]V) tableView[K, V] { return tableView[K, V]{under: rows} }

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

// Undo removes the write of a row.
func (v *tableView[K, V]) Undo(key K) { delete(v.written, key) }

// HasWrites reports whether the transaction wrote rows of the table.
func (v *tableView[K, V]) HasWrites() bool { return len(v.written) > 0 }

// Commit makes all writes visible.
func (v *tableView[K, V]) Commit() { maps.Copy(v.under, v.written) }

// move gives a new key to each row for which the function newKey returns true. It ranges over a copy,
// because a range over a map may include rows that the loop added.
func move[K comparable, V any](rows map[K]V, newKey func(K, V) (K, V, bool)) {
	for key, row := range maps.Clone(rows) {
		if to, as, of := newKey(key, row); of {
			delete(rows, key)
			rows[to] = as
		}
	}
}
