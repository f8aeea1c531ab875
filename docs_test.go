package skald_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocsNameTestsThatExist: whoever doubts a promise finds the test that the pages name.
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

// TestInterleaving: each of the numbered interleavings that touch what there is has tests, which docs/attacks.md names.
func TestInterleaving(t *testing.T) {
	text, err := os.ReadFile("docs/attacks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, number := range []string{"2", "3", "4", "5", "6", "7", "9", "10", "11", "13", "15"} {
		t.Run(number, func(t *testing.T) {
			row := regexp.MustCompile("(?m)^\\| " + number + " \\|.*`(Test[A-Z]\\w+|[A-Z][A-Za-z]+)`")
			if !row.Match(text) {
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
