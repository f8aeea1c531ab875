package skald_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocsNameTestsThatExist checks that each test that the docs name exists.
func TestDocsNameTestsThatExist(t *testing.T) {
	code := map[string]bool{} // test functions, and names of the suites' cases
	function := regexp.MustCompile(`(?m)^func ((?:Test|Example|Benchmark)\w+)\(`)
	named := regexp.MustCompile(`(?m)^\s*\{?"([A-Z][A-Za-z/]+)"(?::|,)`)
	walk(t, ".", ".go", func(path, text string) {
		for _, m := range function.FindAllStringSubmatch(text, -1) {
			code[m[1]] = true
		}
		if strings.Contains(path, "storetest") || strings.Contains(path, "brokertest") {
			for _, m := range named.FindAllStringSubmatch(text, -1) {
				code[m[1]] = true
			}
		}
	})
	test := regexp.MustCompile("`((?:Test|Example)[A-Z]\\w+)")
	suite := regexp.MustCompile("`(?:storetest|brokertest)` ((?:`[A-Z][A-Za-z/]+`(?:, )?)+)")
	each := regexp.MustCompile("`([^`]+)`")
	pages := 0
	walk(t, ".", ".md", func(path, text string) {
		pages++
		for _, m := range test.FindAllStringSubmatch(text, -1) {
			if !code[m[1]] {
				t.Errorf("%s names %s: there is none", path, m[1])
			}
		}
		for _, m := range suite.FindAllStringSubmatch(text, -1) {
			for _, name := range each.FindAllStringSubmatch(m[1], -1) {
				if !code[name[1]] {
					t.Errorf("%s names the case %s of a suite: there is none", path, name[1])
				}
			}
		}
	})
	if pages < 6 || len(code) < 100 {
		t.Errorf("%d pages and %d tests were read", pages, len(code))
	}
}

// TestEachPromiseHasItsTests requires a row with a test in docs/dev/proofs.md for each promise of
// docs/guarantees.md and each failure of docs/dev/failures.md. It refuses rows of other promises and
// failures.
func TestEachPromiseHasItsTests(t *testing.T) {
	rows := func(page, letter string) map[string]string {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		of := map[string]string{}
		for _, m := range regexp.MustCompile(`(?m)^\| (`+letter+
			`\d+) \|(.*)$`).FindAllStringSubmatch(string(text), -1) {
			if of[m[1]] != "" {
				t.Errorf("%s has two rows %s", page, m[1])
			}
			of[m[1]] = m[2]
		}
		return of
	}
	for _, of := range []struct {
		page, letter string
		least        int
	}{{"docs/guarantees.md", "P", 50}, {"docs/dev/failures.md", "F", 90}} {
		named, proofs := rows(of.page, of.letter), rows("docs/dev/proofs.md", of.letter)
		for row := range named {
			if !strings.Contains(proofs[row], "`") {
				t.Errorf("docs/dev/proofs.md names no test of %s", row)
			}
			delete(proofs, row)
		}
		if len(named) < of.least || len(proofs) > 0 {
			t.Errorf("%s has %d rows; docs/dev/proofs.md has rows of none: %v", of.page, len(named), proofs)
		}
	}
}

// TestInterleaving checks that each numbered interleaving in docs/dev/attacks.md has tests. The page names
// the tests, and the comment of each test has the number.
func TestInterleaving(t *testing.T) {
	page, err := os.ReadFile("docs/dev/attacks.md")
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]string{} // the numbers in the comment of each test function, of all packages
	said := regexp.MustCompile(`(?m)^// Interleavings? ([0-9, ]+)\.\nfunc (Test\w+)\(`)
	walk(t, ".", ".go", func(_, text string) {
		for _, m := range said.FindAllStringSubmatch(text, -1) {
			numbers[m[2]] += ", " + m[1] + ","
		}
	})
	test := regexp.MustCompile("`(Test[A-Z]\\w+)`")
	for _, number := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13",
		"14", "15"} {
		t.Run(number, func(t *testing.T) {
			n := 0
			for _, row := range regexp.MustCompile("(?m)^\\| "+number+" \\|.*$").FindAllString(string(page),
				-1) {
				for _, m := range test.FindAllStringSubmatch(row, -1) {
					if n++; !strings.Contains(numbers[m[1]], " "+number+",") {
						t.Errorf("%s does not say that it is about it", m[1])
					}
				}
			}
			if n == 0 {
				t.Error("no test is named for it")
			}
		})
	}
}

func walk(t *testing.T, root, ext string, f func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ext:
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			f(path, string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLinksLeadToFiles checks that the target of each relative link exists.
func TestLinksLeadToFiles(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`)
	links := 0
	walk(t, ".", ".md", func(page, text string) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			links++
			if _, err := os.Stat(path.Join(path.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
			}
		}
	})
	if links < 100 {
		t.Errorf("read only %d links", links)
	}
}
