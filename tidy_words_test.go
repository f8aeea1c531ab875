package skald_test

import (
	"flag"
	"fmt"
	"go/ast"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const wordsFile = "testdata/words.tsv"

// wording counts, in the comments of a folder, words that hide an actor, and docs that do not begin with the
// name of their symbol or field.
type wording struct{ hidden, unnamed int }

// TestWordsOnlyImprove compares the comments of each folder with testdata/words.tsv: no count may rise. A new
// folder starts at zero. "go test . -run Words -args ratchet" writes lower counts to the file.
func TestWordsOnlyImprove(t *testing.T) {
	all, err := read(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	now := map[string]wording{}
	for _, f := range all.files {
		if f.code() {
			w := now[f.dir]
			now[f.dir] = wording{w.hidden + hidden(f.ast), w.unnamed + unnamed(f.ast)}
		}
	}
	text, err := os.ReadFile(wordsFile)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	most := map[string]wording{}
	for line := range strings.Lines(string(text)) {
		var dir string
		var w wording
		if n, _ := fmt.Sscanf(line, "%s %d %d", &dir, &w.hidden, &w.unnamed); n == 3 {
			most[dir] = w
		}
	}
	for dir, is := range now {
		was := most[dir]
		if is.hidden > was.hidden || is.unnamed > was.unnamed {
			t.Errorf("%s: %d words what, who, whose …, at most %d are allowed; %d docs that do not begin "+
				"with the name of their symbol, at most %d are allowed",
				dir, is.hidden, was.hidden, is.unnamed, was.unnamed)
		}
		if is != (wording{}) {
			lines = append(lines, fmt.Sprintf("%s\t%d\t%d\n", dir, is.hidden, is.unnamed))
		}
	}
	if slices.Contains(flag.Args(), "ratchet") && !t.Failed() {
		slices.Sort(lines)
		if err := os.WriteFile(wordsFile, []byte(strings.Join(lines, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// hidden counts words behind which an actor or a thing hides.
func hidden(f *ast.File) (n int) {
	for _, c := range f.Comments {
		for word := range strings.FieldsFuncSeq(strings.ToLower(c.Text()), notLetter) {
			if slices.Contains([]string{"what", "who", "whose", "whom", "whoever", "whatever"}, word) {
				n++
			}
		}
	}
	return n
}

func notLetter(r rune) bool { return !unicode.IsLetter(r) }

// unnamed counts docs that do not begin with the name of their symbol or field.
func unnamed(f *ast.File) (n int) {
	count := func(doc *ast.CommentGroup, name string) {
		rest, is := strings.CutPrefix(doc.Text(), name)
		if doc.Text() != "" && (!is || rest != "" && !strings.ContainsAny(rest[:1], " \n,:.'")) {
			n++
		}
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			count(fn.Doc, fn.Name.Name)
		}
		gen, ok := d.(*ast.GenDecl)
		if !ok || len(gen.Specs) == 0 {
			continue
		}
		if spec, ok := gen.Specs[0].(*ast.TypeSpec); ok && !gen.Lparen.IsValid() {
			count(gen.Doc, spec.Name.Name)
		}
	}
	ast.Inspect(f, func(at ast.Node) bool {
		switch at := at.(type) {
		case *ast.TypeSpec:
			count(at.Doc, at.Name.Name)
		case *ast.ValueSpec:
			count(at.Doc, at.Names[0].Name)
		case *ast.Field:
			if len(at.Names) > 0 {
				count(at.Doc, at.Names[0].Name)
			}
		}
		return true
	})
	return n
}
