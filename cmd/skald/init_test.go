package main_test

import (
	"cmp"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
)

// A variant is one of the services that init writes.
type variant struct{ kind, broker string }

func (v variant) String() string { return v.kind + "-" + cmp.Or(v.broker, "alone") }

func (v variant) flags() (out []string) {
	if v.kind != "events" {
		out = append(out, "--"+v.kind)
	}
	if v.broker != "" {
		out = append(out, "--broker", v.broker)
	}
	return out
}

func variants() []variant {
	all := []variant{{"saga", ""}}
	for _, broker := range cli.Brokers() {
		all = append(all, variant{"events", broker}, variant{"saga", broker}, variant{"participant", broker})
	}
	return all
}

// Each service that init writes is formatted, compiles and is vetted, and its tests pass on PostgreSQL, or
// name the database that they need. The commands of its README and its Makefile have the flags that they
// give. Main has at most 25 lines. Without nightly the tests run for one broker of each kind: they are the
// same for all, with a broker in the process.
func TestInit(t *testing.T) {
	t.Parallel()
	all := t.TempDir()
	for _, v := range variants() {
		v.write(t, filepath.Join(all, v.String()))
	}
	// One module of all: the go command then reads the requirements once.
	must(t, os.Rename(filepath.Join(all, "saga-alone", "go.mod"), filepath.Join(all, "go.mod")))
	for _, v := range variants() {
		_ = os.Remove(filepath.Join(all, v.String(), "go.mod"))
	}
	mod := modfile(t, all)
	goTool(t, all, mod, "vet", "./...")
	tests := map[variant][]string{
		{"events", "kafka"}:         {"TestOrderOnce"},
		{"saga", "nats"}:            {"TestOrderOnce", "TestPlacing"},
		{"participant", "rabbitmq"}: {"TestCommands"},
	}
	at, _ := postgres(t)
	for _, v := range variants() {
		want := tests[v]
		if want == nil && os.Getenv("SKALD_EXPLORE") != "all" { // nightly
			continue
		}
		dir := filepath.Join(all, v.String())
		// once: linking takes long, and half of that is for debuggers
		goTool(t, dir, mod, "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", "tests", ".")
		without, with := testsOf(t, dir, ""), testsOf(t, dir, at)
		for _, test := range want {
			if !strings.Contains(without, "SKIP: "+test) || !strings.Contains(without, "DATABASE_URL") {
				t.Errorf("%v without a database: %s", v, without)
			}
			if !strings.Contains(with, "PASS: "+test) {
				t.Errorf("%v on PostgreSQL: %s", v, with)
			}
		}
	}
}

func testsOf(t *testing.T, dir, database string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "./tests", "-test.v")
	c.Dir, c.Env = dir, append(os.Environ(), "DATABASE_URL="+database)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("the tests of the service %s: %v\n%s", dir, err, out)
	}
	return string(out)
}

// write has init write the service, and reads its files.
func (v variant) write(t *testing.T, dir string) {
	t.Helper()
	p := start(t, nil, append([]string{"init", dir, "--module", "example.com/my-orders"}, v.flags()...)...)
	p.expect(0)
	for _, says := range []string{"service_test.go", "go mod edit -replace", "go mod tidy", "cd " + dir} {
		if !strings.Contains(p.out.String(), says) {
			t.Errorf("init does not print %q: %s", says, p.out.String())
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 9 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		if word := regexp.MustCompile(`{{[\w ]+}}`).Find(text); word != nil {
			t.Errorf("%s has %s", file, word)
		}
		if filepath.Ext(file) != ".go" {
			continue
		}
		if nice, err := format.Source(text); err != nil || string(nice) != string(text) {
			t.Errorf("%s is not formatted: %v", file, err)
		}
		if _, body, is := strings.Cut(string(text), "\nfunc main() {\n"); is {
			body, _, _ = strings.Cut(body, "\n}\n")
			if n := strings.Count(body, "\n") + 3; n > 25 {
				t.Errorf("%s: main has %d lines", file, n)
			}
		}
	}
	knows(t, filepath.Join(dir, "README.md"))
	knows(t, filepath.Join(dir, "Makefile"))
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
	start(t, nil, "init", dir).expect(2, "is not empty", "new or empty")
	start(t, nil, "init", mine).expect(2, "is not empty")
	start(t, nil, "init").expect(2)
	start(t, nil, "init", filepath.Join(dir, "not a name")).expect(2, "--module")
	start(t, nil, "init", filepath.Join(dir, "b"), "--broker", "redis").expect(2, "kafka, nats, rabbitmq")
	start(t, nil, "init", filepath.Join(dir, "b"), "--saga", "--participant").expect(2, "two services")
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
