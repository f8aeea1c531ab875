package main_test

import (
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What init writes is formatted, compiles, is vetted, and its tests pass on PostgreSQL, or say what they
// lack. The commands of its README have the flags that it names.
func TestInit(t *testing.T) {
	t.Parallel()
	written(t, 3, []string{"TestOrderOnce"})
}

func TestInitSaga(t *testing.T) {
	t.Parallel()
	written(t, 4, []string{"TestOrderOnce", "TestPlacing"}, "--saga")
}

func written(t *testing.T, programs int, want []string, flags ...string) {
	dir := filepath.Join(t.TempDir(), "my-orders")
	p := start(t, nil, append([]string{"init", dir, "--module", "example.com/my-orders"}, flags...)...)
	p.expect(0)
	for _, says := range []string{"service_test.go", "go mod edit -replace", "go mod tidy", "cd " + dir} {
		if !strings.Contains(p.out.String(), says) {
			t.Errorf("init does not say %q: %s", says, p.out.String())
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) != programs {
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
	knows(t, filepath.Join(dir, "README.md"))
	mod := modfile(t, dir)
	goTool(t, dir, mod, "vet", "./...")
	goTool(t, dir, mod, "test", "-c", "-vet=off", "-o", "tests", ".") // once: linking takes long
	tests := func(database string) string {
		c := exec.CommandContext(t.Context(), "./tests", "-test.v")
		c.Dir, c.Env = dir, append(os.Environ(), "DATABASE_URL="+database)
		said, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("the tests of the service: %v\n%s", err, said)
		}
		return string(said)
	}
	at, _ := postgres(t)
	without, with := tests(""), tests(at)
	for _, test := range want {
		if !strings.Contains(without, "SKIP: "+test) || !strings.Contains(without, "DATABASE_URL") {
			t.Errorf("without a database: %s", without)
		}
		if !strings.Contains(with, "PASS: "+test) {
			t.Errorf("on PostgreSQL: %s", with)
		}
	}
}

// knows tells whether the command has the flags that a README gives it.
func knows(t *testing.T, readme string) {
	t.Helper()
	text, err := os.ReadFile(readme)
	must(t, err)
	said := 0
	for line := range strings.Lines(string(text)) {
		_, args, ok := strings.Cut(line, "go tool skald ")
		if !ok {
			continue
		}
		words := strings.Fields(args)
		verb := words[:slices.IndexFunc(append(words, "--"),
			func(w string) bool { return strings.HasPrefix(w, "--") })]
		p := start(t, nil, append(slices.Clone(verb), "--help")...)
		p.expect(0)
		for _, w := range words {
			if strings.HasPrefix(w, "--") && !strings.Contains(p.out.String(), w+" ") {
				t.Errorf("%s: skald %s knows no %s", readme, strings.Join(verb, " "), w)
			}
		}
		said++
	}
	if said == 0 {
		t.Errorf("%s names no command", readme)
	}
}

// modfile is the service's go.mod with what else the checkout requires, and the checkout in place of the
// version. So the go command has to read no go.mod but those that the checkout's own build reads: with a
// workspace, or without the requirements, it reads those of all dependencies of dependencies, which a fresh
// module cache has not.
func modfile(t *testing.T, dir string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	must(t, err)
	read := func(dir, name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		return string(text)
	}
	mod := read(dir, "go.mod")
	var more strings.Builder
	for line := range strings.Lines(read(root, "go.mod")) {
		words := strings.Fields(line)
		if strings.HasPrefix(line, "\t") && !strings.Contains(mod, "\t"+words[0]+" ") {
			more.WriteString(line)
		}
	}
	path := filepath.Join(t.TempDir(), "whole.mod")
	text := mod + "\nrequire (\n" + more.String() + ")\n\nreplace github.com/skald-go/skald => " + root + "\n"
	must(t, os.WriteFile(path, []byte(text), 0o600))
	must(t, os.WriteFile(strings.TrimSuffix(path, "mod")+"sum", []byte(read(root, "go.sum")), 0o600))
	return path
}

// goTool runs the go command in dir, without a network.
func goTool(t *testing.T, dir, mod, verb string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", append([]string{verb, "-modfile=" + mod}, args...)...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GOFLAGS=")
	said, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s %s: %v\n%s", verb, strings.Join(args, " "), err, said)
	}
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
	if err != nil || !strings.HasPrefix(string(text), "module orders\n") ||
		!strings.Contains(string(text), "github.com/jackc/pgx/v5 v5.") {
		t.Errorf("%s, %v", text, err)
	}
}
