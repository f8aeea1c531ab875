package main_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A demo touches no database and no broker that the environment names: they are a service's.
func TestDemoLeavesTheEnvironmentAlone(t *testing.T) {
	t.Parallel()
	mine := filepath.Join(t.TempDir(), "mine")
	env := []string{"SKALD_STORE=sqlite:" + mine, "SKALD_BROKER=kafka://127.0.0.1:1", "TMPDIR=" + t.TempDir()}
	start(t, env, "demo", "--orders", "3", "--faults", "none").expect(0,
		"ignores SKALD_STORE and SKALD_BROKER; to use it, give --store and --broker")
	dir := filepath.Join(t.TempDir(), "demo")
	start(t, env, "demo", "--orders", "3", "--faults", "none", "--dir", dir).expect(0,
		"ignores SKALD_BROKER; to use it, give --broker")
	start(t, env, "demo", "show", "o-1").expect(2, "which demo?")
	start(t, env, "demo", "remove", "--yes").expect(2, "which demo?")
	start(t, env, "demo", "remove", "--yes", "--dir", dir).expect(0)
	if _, err := os.Stat(mine); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s was touched: %v", mine, err)
	}
}

// inFile is a URL as a flag takes it that shows no password to others: @FILE.
func inFile(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(path, []byte(url), 0o600); err != nil {
		t.Fatal(err)
	}
	return "@" + path
}
