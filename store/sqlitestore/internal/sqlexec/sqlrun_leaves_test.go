package sqlexec

import "testing"

// A statement that leaves state on its connection is found, and one that leaves none is not.
func TestLeaves(t *testing.T) {
	for q, want := range map[string]bool{
		"PRAGMA query_only = on":                       true,
		"SELECT 1;pragma\nforeign_keys=0":              true,
		"SELECT * FROM pragma_table_info('t')":         false,
		"CREATE TEMP TABLE s (id)":                     true,
		"create/**/temporary trigger r AFTER":          true,
		`CREATE TABLE "temp".s (id)`:                   true,
		"CREATE VIRTUAL TABLE temp.s USING fts5(a)":    true,
		"CREATE TABLE stored (temperature)":            false,
		"INSERT INTO readings (temp) VALUES (?1)":      false,
		"ATTACH 'other.db' AS other":                   true,
		"DETACH other":                                 true,
		"UPDATE attachments SET name = ?1":             false,
		"INSERT INTO t VALUES (?1) ON CONFLICT (a) DO": false,
	} {
		if got := mayLeaveState(q); got != want {
			t.Errorf("leaves(%q) = %v", q, got)
		}
	}
}

func BenchmarkLeaves(b *testing.B) {
	const q = "INSERT INTO told (id, key, batch) SELECT value ->> 'id', value ->> 'key', ?2 FROM json_each(?1)"
	for b.Loop() {
		mayLeaveState(q)
	}
}
