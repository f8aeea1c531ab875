package skald_test

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestArchitectureNamesWhatIsThere requires one line of docs/dev/architecture.md for each package, and for
// each file of the largest packages, in the order of ranks.
func TestArchitectureNamesWhatIsThere(t *testing.T) {
	text, err := os.ReadFile("docs/dev/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	all, err := read(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	there := map[string][]string{}
	for _, f := range all.files {
		if !f.code() {
			continue
		}
		there["Packages"] = append(there["Packages"], packageOf(f.dir))
		if f.dir == "inbox" || f.dir == "store/pgstore" {
			title := "The files of `" + f.dir + "`"
			there[title] = append(there[title], path.Base(f.path))
		}
	}
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.+) \\|$")
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		var named []string
		last := -1
		for _, m := range row.FindAllStringSubmatch(body, -1) {
			named = append(named, m[1])
			if title == "Packages" {
				rank := rankOf(m[1])
				if rank < last {
					t.Errorf("%s stands below a package of a higher rank", m[1])
				}
				last = rank
			}
		}
		want := there[title]
		slices.Sort(want)
		want = slices.Compact(want)
		slices.Sort(named)
		for _, name := range want {
			if !slices.Contains(named, name) {
				t.Errorf("docs/dev/architecture.md: %s: there is no line for %s: say in few words what it is for",
					title, name)
			}
		}
		for i, name := range named {
			if !slices.Contains(want, name) || i > 0 && named[i-1] == name {
				t.Errorf("docs/dev/architecture.md: %s: %s is not there, or named twice", title, name)
			}
		}
		delete(there, title)
	}
	for title := range there {
		t.Errorf("docs/dev/architecture.md has no section %q", title)
	}
}

// packageOf returns the package that has the line for dir. A program has one line for all its packages.
func packageOf(dir string) string {
	for _, program := range []string{"examples", "cmd/skald"} {
		if within(dir, program) {
			return program
		}
	}
	return dir
}
