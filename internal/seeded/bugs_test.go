package seeded_test

import (
	"bytes"
	_ "embed"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// bugs lists each seeded bug: the folder, the test that finds it, and the name of the bug, if it has one.
//
//go:embed bugs.tsv
var bugs string

const root = "../.."

// hunters are names of tests that seed bugs.
var hunters = regexp.MustCompile(`SeededBug|SeededIdentityBugs|FamiliesOfBugs|BugsThatTheSuiteOncePassed|^TestSabotage(IsRed|DoesHarm)$`)

// A suite is what the test files of a folder have.
type suite struct {
	tests map[string]bool // by name, whether make nightly alone runs it
	texts map[string]bool // string literals
}

// Each bug of the list keeps its test, which make test runs, and each test that seeds bugs is in the list.
func TestEachBugOfTheListKeepsItsTest(t *testing.T) {
	suites, listed := map[string]suite{}, map[string]bool{}
	for line := range strings.Lines(bugs) {
		f := append(strings.Split(strings.TrimSuffix(line, "\n"), "\t"), "")
		folder, test, bug := f[0], f[1], f[2]
		if _, read := suites[folder]; !read {
			suites[folder] = suiteOf(t, folder)
		}
		listed[folder+" "+test] = true
		s := suites[folder]
		if nightly, there := s.tests[test]; !there {
			t.Errorf("%s has no %s any more, which finds %q", folder, test, bug)
		} else if nightly {
			t.Errorf("%s %s, which finds %q, must run in make test, and calls need.Nightly", folder, test, bug)
		}
		if bug != "" && !s.texts[bug] {
			t.Errorf("the tests of %s have no bug %q any more: seed it again", folder, bug)
		}
	}
	for _, folder := range folders(t) {
		for _, test := range slices.Sorted(maps.Keys(suiteOf(t, folder).tests)) {
			if hunters.MatchString(test) && !listed[folder+" "+test] {
				t.Errorf("%s %s seeds bugs: add each to internal/seeded/bugs.tsv", folder, test)
			}
		}
	}
}

// What the documents name as proof runs in make test.
func TestProofsAreNotNightly(t *testing.T) {
	var named []byte
	for _, page := range []string{"proofs.md", "attacks.md"} {
		text, err := os.ReadFile(filepath.Join(root, "docs", "dev", page))
		if err != nil {
			t.Fatal(err)
		}
		named = append(named, text...)
	}
	for _, folder := range folders(t) {
		for test, nightly := range suiteOf(t, folder).tests {
			if nightly && bytes.Contains(named, []byte("`"+test+"`")) {
				t.Errorf("%s %s calls need.Nightly, and docs/dev/proofs.md or docs/dev/attacks.md names it", folder, test)
			}
		}
	}
}

// The tests that scripts/test runs again under the race detector exist: -run passes over a name that is
// missing.
func TestMeetingsAreThere(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, "scripts", "test"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^meetings='\^\((.*)\)\$'$`).FindSubmatch(script)
	if names == nil {
		t.Fatal("scripts/test has no meetings='^(TestA|TestB)$'")
	}
	folders := regexp.MustCompile(`(?m)^meet=\((.*)\)$`).FindSubmatch(script)
	if folders == nil {
		t.Fatal("scripts/test has no meet=(./a ./b)")
	}
	there := map[string]bool{}
	for folder := range strings.FieldsSeq(string(folders[1])) {
		maps.Insert(there, maps.All(suiteOf(t, folder).tests))
	}
	for _, name := range strings.Split(string(names[1]), "|") {
		if _, ok := there[name]; !ok {
			t.Errorf("scripts/test names %s among the meetings, and no package has it", name)
		}
	}
}

// folders are those of the checkout that have tests.
func folders(t *testing.T) []string {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() && !strings.HasSuffix(path, "_test.go") {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return fs.SkipDir
		}
		if !d.IsDir() {
			all[filepath.Dir(path)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(func(yield func(string) bool) {
		for path := range all {
			if at, err := filepath.Rel(root, path); err != nil || !yield(at) {
				return
			}
		}
	})
}

func suiteOf(t *testing.T, folder string) suite {
	t.Helper()
	s := suite{map[string]bool{}, map[string]bool{}}
	files, _ := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				text, _ := strconv.Unquote(l.Value)
				s.texts[text] = true
			}
			return true
		})
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
				s.tests[f.Name.Name] = callsNightly(f)
			}
		}
	}
	return s
}

func callsNightly(f *ast.FuncDecl) (nightly bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		nightly = nightly || ok && s.Sel.Name == "Nightly"
		return true
	})
	return nightly
}
