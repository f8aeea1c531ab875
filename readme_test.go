package skald_test

import (
	"os"
	"path"
	"strings"
	"testing"
)

// The README's three programs are the files that `go build` compiles, from their types on.
func TestReadmeShowsTheProgramsThatCompile(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"write", "relay", "consume"} {
		file := path.Join("examples", name, "main.go")
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, body, ok := strings.Cut(string(code), "\n)\n\n") // behind the imports
		if !ok {
			t.Fatalf("%s has no imports", file)
		}
		body, _, _ = strings.Cut(body, "\nfunc check(")
		if !strings.Contains(string(readme), strings.TrimSpace(body)) {
			t.Errorf("README.md does not show %s as it is", file)
		}
	}
}

// Its test is an example that `go test` runs.
func TestReadmeShowsTheTestThatRuns(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("sagatest/drain_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(code), "func ExampleDrain() {")
	body, _, _ = strings.Cut(body, "\n}\n")
	_, body, ok := strings.Cut(body, "\tout := ")
	if shown := "out := " + strings.ReplaceAll(body, "\n\t", "\n"); !ok || !strings.Contains(string(readme), shown) {
		t.Errorf("README.md does not show ExampleDrain as it is:\n%s", shown)
	}
}
