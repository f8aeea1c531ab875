package main_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// linked are the packages of a build, each with what it imports.
func linked(t *testing.T, tags string) map[string][]string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", tags,
		"-f", "{{.ImportPath}} {{join .Imports \" \"}}", ".")
	said, err := c.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	out := map[string][]string{}
	for line := range strings.Lines(string(said)) {
		words := strings.Fields(line)
		out[words[0]] = words[1:]
	}
	return out
}

// No build has a server of a broker. One with the tag nodemo has nothing of the demo, the shop and the test
// kit.
func TestLinked(t *testing.T) {
	t.Parallel()
	const ours = "github.com/skald-go/skald/"
	servers := []string{"github.com/nats-io/nats-server"}
	demo := []string{ours + "examples/", ours + "sagatest", ours + "cmd/skald/internal/demo",
		ours + "store/storetest", ours + "broker/brokertest"}
	for tags, barred := range map[string][]string{"": servers, "nodemo": append(demo, servers...)} {
		all := linked(t, tags)
		if len(all[ours+"cmd/skald"]) == 0 {
			t.Fatalf("tags %q: go list names %d packages, and not the command", tags, len(all))
		}
		for name, imports := range all {
			if slices.ContainsFunc(barred, func(b string) bool { return strings.HasPrefix(name, b) }) {
				t.Errorf("tags %q: %s is linked", tags, name)
			}
			// Its calls of methods by name make the linker keep every exported method: 6 MB. Cobra uses it in
			// a way that does not.
			if slices.Contains(imports, "text/template") && name != "github.com/spf13/cobra" {
				t.Errorf("tags %q: %s imports text/template: the binary grows by a fifth", tags, name)
			}
		}
	}
}
