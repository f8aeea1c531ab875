package main_test

import (
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What init writes is formatted, compiles, is vetted, and its test passes on PostgreSQL, or says what it lacks.
func TestInit(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "my-orders")
	p := start(t, nil, "init", dir, "--module", "example.com/my-orders")
	p.expect(0)
	for _, says := range []string{"service_test.go", "go mod tidy", "cd " + dir} {
		if !strings.Contains(p.out.String(), says) {
			t.Errorf("init does not say %q: %s", says, p.out.String())
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) != 3 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if nice, err := format.Source(text); err != nil || string(nice) != string(text) {
			t.Errorf("%s is not formatted: %v", filepath.Base(file), err)
		}
	}
	work := workspace(t, dir)
	goTool(t, dir, work, "", "vet", "./...")
	if said := goTool(t, dir, work, "", "test", "-v", "./..."); !strings.Contains(said, "SKIP: TestOrderOnce") || !strings.Contains(said, "DATABASE_URL") {
		t.Errorf("without a database: %s", said)
	}
	at, _ := postgres(t)
	if said := goTool(t, dir, work, at, "test", "-v", "./..."); !strings.Contains(said, "PASS: TestOrderOnce") {
		t.Errorf("on PostgreSQL: %s", said)
	}
}

// workspace has the service and this checkout.
func workspace(t *testing.T, dir string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(string(mod), "github.com/skald-go/skald ")
	version, _, _ = strings.Cut(version, "\n")
	path := filepath.Join(t.TempDir(), "go.work")
	text := "go 1.26.0\n\nuse (\n\t" + dir + "\n\t" + root + "\n)\n\nreplace github.com/skald-go/skald " + version + " => " + root + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// goTool runs the go command in dir, without a network.
func goTool(t *testing.T, dir, work, database string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOWORK="+work, "GOPROXY=off", "GOFLAGS=", "DATABASE_URL="+database)
	said, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, said)
	}
	return string(said)
}

// A folder in which something is stays as it is; a name that makes no module is refused with what to do.
func TestInitRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine")
	if err := os.WriteFile(mine, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, nil, "init", dir).expect(2, "already", "new or empty")
	start(t, nil, "init", mine).expect(2, "already")
	start(t, nil, "init").expect(2)
	start(t, nil, "init", filepath.Join(dir, "not a name")).expect(2, "--module")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	start(t, nil, "init", filepath.Join(dir, "a", "orders")).expect(0)
	text, err := os.ReadFile(filepath.Join(dir, "a", "orders", "go.mod"))
	if err != nil || !strings.HasPrefix(string(text), "module orders\n") || !strings.Contains(string(text), "github.com/jackc/pgx/v5 v5.") {
		t.Errorf("%s, %v", text, err)
	}
}
