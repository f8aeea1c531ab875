package skald_test

import (
	"os"
	"path"
	"strings"
	"testing"
)

// The programs of the README are parts of examples that compile.
func TestReadmeShowsTheProgramsThatCompile(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, part := range map[string][2]string{
		"write":       {"out := outbox.New", "\n}\n"},
		"consume":     {"out, in := ", "\n\tcheck(skald.Run"},
		"orchestrate": {"hold := saga.Do(", "\n\n\tengine, err := "},
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
