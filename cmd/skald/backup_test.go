package main_test

import (
	"encoding/json"
	"path/filepath"
	"testing"
)

// A backup is a file that the command works on, and none is made of what is no SQLite file.
func TestBackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at, to := "sqlite:"+filepath.Join(dir, "stock.db"), filepath.Join(dir, "copy.db")
	start(t, nil, "migrate", "--store", at).expect(0)
	p := start(t, nil, "backup", "--store", at, "--to", to, "--json")
	p.expect(0)
	var made struct {
		File  string
		Bytes int64
	}
	if err := json.Unmarshal([]byte(p.out.String()), &made); err != nil || made.File != to ||
		made.Bytes == 0 {
		t.Errorf("%s, %v", p.out.String(), err)
	}
	start(t, nil, "outbox", "status", "--store", "sqlite:"+to).expect(0)
	start(t, nil, "backup", "--store", at, "--to", to).expect(1, "exists already")
	start(t, nil, "backup", "--store", at).expect(2, "--to FILE")
	start(t, nil, "backup", "--store", "postgres://h/db", "--to", to).expect(2, "pg_dump")
	start(t, nil, "backup", "--store", "sqlite:"+filepath.Join(dir, "none.db"),
		"--to", filepath.Join(dir, "x.db")).expect(4, "none.db")
}
