package skald_test

import (
	"os"
	"path"
	"strings"
	"testing"
)

// The three programs of docs/start.md are the files that `go build` compiles, from their types on.
func TestStartShowsTheProgramsThatCompile(t *testing.T) {
	readme, err := os.ReadFile("docs/start.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"write", "relay", "consume"} {
		file := path.Join("examples", name, "main.go")
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, body, ok := strings.Cut(string(code), "\n)\n\n") // after the imports
		if !ok {
			t.Fatalf("%s has no imports", file)
		}
		body, _, _ = strings.Cut(body, "\nfunc check(")
		if !strings.Contains(string(readme), strings.TrimSpace(body)) {
			t.Errorf("docs/start.md does not show %s as it is", file)
		}
	}
}

// The compensation and the saga of the README are in programs that compile.
func TestReadmeShowsTheHandlersThatCompile(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, part := range map[string][2]string{
		"compensate":  {"charge := ", "\tcheck(skald.Run"},
		"orchestrate": {"hold := saga.Do(", "\n\tengine, err := "},
	} {
		from, end := part[0], part[1]
		code, err := os.ReadFile(path.Join("examples", name, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		_, body, ok := strings.Cut(string(code), "\t"+from)
		body, _, _ = strings.Cut(body, end)
		if shown := from + strings.ReplaceAll(body, "\n\t", "\n"); !ok ||
			!strings.Contains(string(readme), shown) {
			t.Errorf("README.md does not show examples/%s as it is:\n%s", name, shown)
		}
	}
}

// The two styles of docs/services.md are functions of the shop's.
func TestServicesShowsTheShopInBothStyles(t *testing.T) {
	page, err := os.ReadFile("docs/services.md")
	if err != nil {
		t.Fatal(err)
	}
	for file, from := range map[string]string{
		"inventory/inventory.go": "func (s *Inventory[TTx]) react(",
		"order/saga.go":          "func (s *Order[TTx]) define(",
	} {
		code, err := os.ReadFile(path.Join("examples", "shop", file))
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(string(code), from)
		_, body, _ = strings.Cut(body, "{\n\t")
		body, _, ok := strings.Cut(body, "\n}\n")
		shown := strings.ReplaceAll(body, "\n\t", "\n")
		if !ok || !strings.Contains(string(page), "```go\n"+shown+"\n```") {
			t.Errorf("docs/services.md does not show %s of examples/shop/%s as it is:\n%s", from, file, shown)
		}
		if n := strings.Count(shown, "\n") + 1; n >= 40 {
			t.Errorf("%s is %d lines long, and was to be shorter than 40", file, n)
		}
	}
}

// The test of docs/start.md is an example that `go test` runs.
func TestStartShowsTheTestThatRuns(t *testing.T) {
	readme, err := os.ReadFile("docs/start.md")
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
	if shown := "out := " + strings.ReplaceAll(body, "\n\t", "\n"); !ok ||
		!strings.Contains(string(readme), shown) {
		t.Errorf("docs/start.md does not show ExampleDrain as it is:\n%s", shown)
	}
}
