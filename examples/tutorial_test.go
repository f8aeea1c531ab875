package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each tutorial is run as a reader would: the test pastes its files, types its commands and compares what the
// page shows with what they print. The clone of Skald next to the module is this checkout.
func TestTutorials(t *testing.T) {
	for _, page := range []string{"start", "first-saga"} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("..", "docs", page+".md"))
			if err != nil {
				t.Fatal(err)
			}
			follow(t, string(text))
		})
	}
}

var tutorialBlock = regexp.MustCompile("(?s)```(go|sh|text)\n(.*?\n)```\n")

func follow(t *testing.T, page string) {
	clone, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	top := t.TempDir()
	if err := os.Symlink(clone, filepath.Join(top, "skald")); err != nil {
		t.Fatal(err)
	}
	dir, printed, shown := top, "", 0
	name := regexp.MustCompile("`([a-z_]+\\.go)`:\n\n$")
	for _, m := range tutorialBlock.FindAllStringSubmatchIndex(page, -1) {
		kind, body := page[m[2]:m[3]], page[m[4]:m[5]]
		switch kind {
		case "go":
			file := name.FindStringSubmatch(page[:m[0]])
			if file == nil {
				t.Fatalf("the line before this file does not end in its name:\n%s", body)
			}
			if err := os.WriteFile(filepath.Join(dir, file[1]), []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
		case "sh":
			printed, dir = typeIn(t, dir, body)
		case "text":
			if shown++; printed != body {
				t.Errorf("the page shows\n%s\nand the commands print\n%s", body, printed)
			}
		}
	}
	if shown == 0 {
		t.Error("the page shows no output")
	}
}

// typeIn runs commands in dir, and returns the output and the folder that they end in. It fills go.mod from
// the checkout in place of `go mod tidy`, which needs a network.
func typeIn(t *testing.T, dir, commands string) (output, end string) {
	t.Helper()
	const tidy = `go mod edit -require github.com/skald-go/skald@v0.0.0
sed -n '/^require (/,/^)/p' ../skald/go.mod >> go.mod
cp ../skald/go.sum .
`
	script := strings.ReplaceAll(commands, "go mod tidy\n", tidy) + "pwd > \"$SCRIPT_END\"\n"
	file := filepath.Join(t.TempDir(), "end")
	c := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
	c.Dir = dir
	c.Env = append(os.Environ(), "SCRIPT_END="+file, "GOWORK=off", "GOPROXY=off", "GOFLAGS=")
	var log strings.Builder
	c.Stderr = &log
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s\n%v\n%s\n%s", commands, err, out, log.String())
	}
	pwd, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), strings.TrimSpace(string(pwd))
}
