package skald_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxFile = 800 // limits the lines of a file
	maxFunc = 70  // limits the lines of a function, from func to the last brace
	maxWide = 110 // limits the columns of a comment line; a tab counts as four
)

// tree has the files of the module.
type tree struct {
	fset  *token.FileSet
	files []file
}

// file is one .go or .sql file.
type file struct {
	path, dir string
	text      string
	ast       *ast.File // nil for SQL
}

func (f file) test() bool { return strings.HasSuffix(f.path, "_test.go") }
func (f file) code() bool { return f.ast != nil && !f.test() }

// read reads all .go and .sql files, without nested modules and folders that the go command skips.
func read(files fs.FS) (tree, error) {
	t := tree{fset: token.NewFileSet()}
	err := fs.WalkDir(files, ".", func(at string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if skipped(files, at) {
				return fs.SkipDir
			}
			return nil
		}
		return t.add(files, at)
	})
	return t, err
}

func skipped(files fs.FS, dir string) bool {
	if dir == "." {
		return false
	}
	_, err := fs.Stat(files, path.Join(dir, "go.mod"))
	base := path.Base(dir)
	return err == nil || base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")
}

func (t *tree) add(files fs.FS, at string) error {
	ext := path.Ext(at)
	if ext != ".go" && ext != ".sql" {
		return nil
	}
	text, err := fs.ReadFile(files, at)
	if err != nil {
		return err
	}
	f := file{path: at, dir: path.Dir(at), text: string(text)}
	if ext == ".go" {
		if f.ast, err = parser.ParseFile(t.fset, at, text, parser.ParseComments|
			parser.SkipObjectResolution); err != nil {
			return err
		}
	}
	t.files = append(t.files, f)
	return nil
}

func (t tree) at(n ast.Node) string {
	p := t.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

func (f file) imports() (out []string) {
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err == nil {
			out = append(out, p)
		}
	}
	return out
}

// ours returns the folder of an import. ok is false if the import is not of this module.
func ours(imported string) (dir string, ok bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// within reports whether dir is root or is in root. For the root of the module, it returns true only for the
// root itself.
func within(dir, root string) bool {
	return dir == root || root != "." && strings.HasPrefix(dir, root+"/")
}

// alone reports whether the rule of a folder does not apply to the folders in it.
func alone(home string) bool { return home == "." || home == "store" || home == "broker" }

// ruleOf returns the rule of the nearest folder with a rule: dir, or a folder above it.
func ruleOf(dir string) (home string, r rule, ok bool) {
	all := house()
	for home = dir; ; home = path.Dir(home) {
		if r, ok = all[home]; ok {
			return home, r, home == dir || !alone(home)
		}
		if home == "." {
			return "", rule{}, false
		}
	}
}

func checkImports(t tree) (found []string) {
	for _, f := range t.files {
		if f.ast == nil {
			continue
		}
		home, r, ok := ruleOf(f.dir)
		if !ok {
			found = append(found,
				fmt.Sprintf("%s: the folder %s has no rule: say in tidy_test.go what it may import",
					f.path, f.dir))
			continue
		}
		if f.test() {
			continue
		}
		for _, p := range f.imports() {
			if !allowed(home, r, p) {
				found = append(found, fmt.Sprintf("%s imports %s, which %s may not", f.path, p, home))
			}
		}
	}
	return found
}

func allowed(home string, r rule, imported string) bool {
	dir, mine := ours(imported)
	switch {
	case mine:
		return within(dir, home) && !alone(home) ||
			slices.ContainsFunc(r.ours, func(o string) bool { return opens(o, dir) })
	case standard(imported):
		return true
	case slices.Contains(r.vendors, "*"):
		return true
	case within(imported, otel): // the API: exporters are for commands
		return slices.Contains(r.vendors, otel) && !exporter(imported)
	}
	return slices.ContainsFunc(r.vendors, func(v string) bool { return strings.HasPrefix(imported, v) })
}

// rankOf returns the rank of the nearest folder with a rank: dir, or a folder above it. It returns -1 if
// there is none.
func rankOf(dir string) int {
	rank, nearest := -1, ""
	for n, all := range ranks() {
		for _, name := range all {
			if (within(dir, name) || name == dir) && (nearest == "" || len(name) > len(nearest)) {
				rank, nearest = n, name
			}
		}
	}
	return rank
}

// checkRanks finds imports of packages with the same or a higher rank, among the imports that the rules
// allow.
func checkRanks(t tree) (found []string) {
	for _, f := range t.files {
		home, r, ok := ruleOf(f.dir)
		if !ok || !f.code() {
			continue
		}
		rank := rankOf(f.dir)
		if rank < 0 {
			found = append(found, fmt.Sprintf("%s: the folder %s has no rank: give it one in tidy_test.go",
				f.path, f.dir))
			continue
		}
		for _, p := range f.imports() {
			dir, mine := ours(p)
			if above := rankOf(dir); mine && above >= rank && allowed(home, r, p) && !related(dir, f.dir) {
				found = append(found,
					fmt.Sprintf("%s imports %s, which is of rank %d and not below its own, %d", f.path, p,
						above, rank))
			}
		}
	}
	return found
}

// related reports whether two folders have their rank from the same name in ranks.
func related(a, b string) bool {
	for _, all := range ranks() {
		for _, name := range all {
			if within(a, name) && within(b, name) && rankOf(a) == rankOf(name) && rankOf(b) == rankOf(name) {
				return true
			}
		}
	}
	return false
}

// opens reports whether the permission o includes the folder dir. The name of a seam (store, broker) does not
// include the drivers.
func opens(o, dir string) bool {
	switch o {
	case "store", "broker":
		return dir == o
	case "drivers":
		return isDriver(dir)
	}
	return within(dir, o)
}

func isDriver(dir string) bool {
	parent := path.Dir(dir)
	return (within(parent, "store") || within(parent, "broker")) && !strings.HasSuffix(dir, "test")
}

func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

func exporter(imported string) bool {
	return within(imported, otel+"/sdk") || within(imported, otel+"/exporters")
}

func checkOnlyTests(t tree) (found []string) {
	for _, f := range t.files {
		if !f.code() {
			continue
		}
		for _, p := range f.imports() {
			dir, mine := ours(p)
			if !mine {
				dir = p
			}
			users, listed := onlyTests()[dir]
			if listed && !within(f.dir, dir) &&
				!slices.ContainsFunc(users, func(u string) bool { return within(f.dir, u) }) {
				found = append(found, fmt.Sprintf("%s imports %s, which is for tests", f.path, p))
			}
		}
	}
	return found
}

// checkSeams checks the packages store and broker. They have only interfaces, plain data and errors. Their
// functions are methods of error types, String methods, functions that examine an error, and short functions
// that make one call to a driver.
func checkSeams(t tree) (found []string) {
	for _, seam := range []string{"store", "broker"} {
		errs := errorTypes(t, seam)
		for _, f := range t.files {
			if f.dir != seam || !f.code() {
				continue
			}
			for _, d := range f.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && !seamFunc(fn, errs) && !asksDriver(t, fn) {
					found = append(found, fmt.Sprintf("%s: %s is behaviour, in a seam", t.at(fn),
						fn.Name.Name))
				}
			}
		}
	}
	return found
}

func errorTypes(t tree, dir string) map[string]bool {
	out := map[string]bool{}
	for _, f := range t.files {
		if f.dir != dir || !f.code() {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.Name == "Error" {
				out[receiver(fn)] = true
			}
		}
	}
	return out
}

func seamFunc(fn *ast.FuncDecl, errs map[string]bool) bool {
	if fn.Recv != nil {
		return errs[receiver(fn)] || fn.Name.Name == "String"
	}
	in := fn.Type.Params.List
	if len(in) != 1 || len(in[0].Names) > 1 {
		return false
	}
	id, ok := in[0].Type.(*ast.Ident)
	return ok && id.Name == "error"
}

func asksDriver(t tree, fn *ast.FuncDecl) bool {
	in := fn.Type.Params.List
	short := t.fset.Position(fn.End()).Line-t.fset.Position(fn.Pos()).Line < 15
	return fn.Recv == nil && short && len(in) > 1 && len(in[1].Names) == 1 && in[1].Names[0].Name == "db"
}

func receiver(fn *ast.FuncDecl) string {
	typ := fn.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if id, ok := typ.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func checkSizes(t tree) (found []string) {
	for _, f := range t.files {
		if f.ast == nil {
			continue
		}
		if n := strings.Count(f.text, "\n"); n > maxFile {
			found = append(found, fmt.Sprintf("%s has %d lines, at most %d are allowed", f.path, n, maxFile))
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || f.test() {
				continue
			}
			if n := t.fset.Position(fn.End()).Line - t.fset.Position(fn.Pos()).Line + 1; n > maxFunc {
				found = append(found, fmt.Sprintf("%s: %s has %d lines, at most %d are allowed", t.at(fn),
					fn.Name.Name, n, maxFunc))
			}
		}
	}
	return found
}

// checkWidth finds comments that are wider than maxWide. Indented text in a comment may be wider. Code may
// be wider because of a literal: a literal is not split, so that a search finds its text. Blanks for
// alignment do not count.
func checkWidth(t tree) (found []string) {
	for _, f := range t.files {
		if !strings.HasSuffix(f.path, ".go") {
			continue
		}
		texts := literals(t, f)
		for i, line := range strings.Split(f.text, "\n") {
			wide := columns(line)
			if wide <= maxWide {
				continue
			}
			text, is := strings.CutPrefix(strings.TrimLeft(line, "\t"), "//")
			switch {
			case is && strings.HasPrefix(text, " ") && !strings.HasPrefix(text, "  "):
				found = append(found, fmt.Sprintf("%s:%d: the comment is %d columns wide, at most %d are allowed",
					f.path, i+1, wide, maxWide))
			case is || texts[i+1] || wide-aligned(line) <= maxWide:
			default:
				found = append(found, fmt.Sprintf("%s:%d: the line is %d columns wide, at most %d are allowed",
					f.path, i+1, wide, maxWide))
			}
		}
	}
	return found
}

func columns(s string) int { return utf8.RuneCountInString(strings.ReplaceAll(s, "\t", "    ")) }

// aligned returns the number of blanks in line that align it with the lines above and below.
func aligned(line string) (n int) {
	for i := range len(line) - 1 {
		if line[i:i+2] == "  " {
			n++
		}
	}
	return n
}

// literals returns the lines that are wide because of a literal: it exceeds the limit, or is most of the
// line.
func literals(t tree, f file) map[int]bool {
	past := map[int]bool{}
	if f.ast == nil {
		return past
	}
	lines := strings.Split(f.text, "\n")
	ast.Inspect(f.ast, func(n ast.Node) bool {
		lit, is := n.(*ast.BasicLit)
		if !is || lit.Kind != token.STRING {
			return true
		}
		at := t.fset.Position(lit.Pos())
		before := columns(lines[at.Line-1][:at.Column-1])
		for i, part := range strings.Split(lit.Value, "\n") {
			n := utf8.RuneCountInString(part)
			past[at.Line+i] = past[at.Line+i] || n > maxWide/2 || i == 0 && before+n > maxWide-3
		}
		return true
	})
	return past
}

func checkVariables(t tree) (found []string) {
	for _, f := range t.files {
		if !f.code() {
			continue
		}
		for _, d := range f.ast.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, s := range gen.Specs {
				if spec := s.(*ast.ValueSpec); !variableOK(gen, spec) {
					found = append(found,
						fmt.Sprintf("%s: the package variable %s is no error, interface assertion, embed, event or saga", t.at(spec), spec.Names[0].Name))
				}
			}
		}
	}
	return found
}

func variableOK(gen *ast.GenDecl, spec *ast.ValueSpec) bool {
	if embeds(gen.Doc) || embeds(spec.Doc) {
		return true
	}
	for i, name := range spec.Names {
		switch {
		case name.Name == "_" && spec.Type != nil:
		case len(spec.Values) != len(spec.Names):
			return false
		case isError(name.Name, spec.Values[i]), isEvent(spec.Values[i]), isSaga(spec.Values[i]):
		default:
			return false
		}
	}
	return true
}

func embeds(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List,
		func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

// isError reports whether v creates an error, or is an error of another package with the same name.
func isError(name string, v ast.Expr) bool {
	if passed, ok := v.(*ast.SelectorExpr); ok {
		return strings.HasPrefix(name, "Err") && passed.Sel.Name == name
	}
	call, ok := v.(*ast.CallExpr)
	if !ok || !strings.HasPrefix(strings.ToLower(name), "err") {
		return false
	}
	fn := spelled(call.Fun)
	return fn == "errors.New" || fn == "fmt.Errorf"
}

func isEvent(v ast.Expr) bool {
	lit, ok := v.(*ast.CompositeLit)
	if !ok {
		return false
	}
	typ, ok := lit.Type.(*ast.IndexExpr)
	return ok && (spelled(typ.X) == "skald.Event" || spelled(typ.X) == "Event")
}

// isSaga reports whether v is a definition of a saga, a step, or a part of these. Such values never change.
func isSaga(v ast.Expr) bool {
	if call, ok := v.(*ast.CallExpr); ok {
		v = call.Fun
	} else if lit, ok := v.(*ast.CompositeLit); ok {
		v = lit.Type
	}
	switch typ := v.(type) {
	case *ast.IndexExpr:
		v = typ.X
	case *ast.IndexListExpr:
		v = typ.X
	}
	sel, ok := v.(*ast.SelectorExpr)
	return ok && spelled(sel.X) == "saga"
}

func spelled(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return spelled(e.X) + "." + e.Sel.Name
	case *ast.BasicLit:
		return e.Value
	}
	return ""
}

func callsRecover(f *ast.FuncDecl) (calls bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok && spelled(c.Fun) == "recover" {
			calls = true
		}
		return true
	})
	return calls
}

func checkInitAndPanic(t tree) (found []string) {
	for _, f := range t.files {
		if !f.code() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil && n.Name.Name == "init" {
					found = append(found, t.at(n)+": no init functions")
				}
				return !callsRecover(n) // a function that recovers may panic again with the same value
			case *ast.CallExpr:
				if spelled(n.Fun) == "panic" {
					found = append(found, t.at(n)+": no panics: return an error")
				}
			}
			return true
		})
	}
	return found
}

func checkNames(t tree) (found []string) {
	vague := []string{"util", "utils", "common", "types", "models", "helpers", "misc"}
	for _, f := range t.files {
		if f.ast == nil {
			continue
		}
		for _, name := range []string{path.Base(f.dir), strings.TrimSuffix(f.ast.Name.Name, "_test")} {
			if slices.Contains(vague, name) {
				found = append(found, fmt.Sprintf("%s: %q says nothing of what is in a package",
					f.path, name))
			}
		}
	}
	return found
}

const (
	manner = `((OR|REPLACE|UNLOGGED|TEMP|TEMPORARY|UNIQUE|MATERIALIZED|FOREIGN|VIRTUAL)\s+)*`
	object = `(TABLE|INDEX|TYPE|SEQUENCE|VIEW|FUNCTION|TRIGGER)\b`
)

// checkDDL checks that only migrations, the demo and tests create and change tables. Only a migration may
// drop a table, and it must name the builds that still support the tables.
func checkDDL(t tree) (found []string) {
	ddl := regexp.MustCompile(`(?i)\b(CREATE|ALTER|DROP)\s+` + manner + object)
	drop := regexp.MustCompile(`(?i)\bDROP\s+TABLE\b`)
	for _, f := range t.files {
		if f.test() || free(f.dir) {
			continue
		}
		rule, what := ddl, "DDL outside a migration"
		if migration(f) {
			rule, what = drop, "a migration that drops a table"
			if strings.Contains(f.text, "\n-- builds from ") {
				continue
			}
		}
		for _, s := range statements(f) {
			if hit := rule.FindString(s); hit != "" {
				found = append(found, fmt.Sprintf("%s: %s: %q", f.path, what, hit))
			}
		}
	}
	return found
}

// migration reports whether only migrations run f: the scripts in migration/, and sql/migration.sql, which
// records them.
func migration(f file) bool {
	return f.ast == nil && (path.Base(f.dir) == "migration" || path.Base(f.path) == "migration.sql")
}

func free(dir string) bool {
	for _, d := range []string{"cmd", "examples", "sagatest", "store/storetest", "broker/brokertest"} {
		if within(dir, d) {
			return true
		}
	}
	return false
}

// statements returns the texts that may reach a database at run time: SQL without comments, and strings in
// Go, except those in methods of a migrator.
func statements(f file) (out []string) {
	if f.ast == nil {
		return []string{regexp.MustCompile(`(?m)--.*$`).ReplaceAllString(f.text, "")}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if fn, ok := n.(*ast.FuncDecl); ok && fn.Recv != nil && receiver(fn) == "migrator" {
			return false
		}
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				out = append(out, s)
			}
		}
		return true
	})
	return out
}

// checkSession finds statements that depend on a session. A pooler in transaction mode may use another
// session for each transaction. So statements must name the schema, and settings and locks must be those of
// the transaction.
func checkSession(t tree) (found []string) {
	session := regexp.MustCompile(`(?i)\bsearch_path\b|\bpg_(try_)?advisory_(lock|unlock)(_shared|_all)?\s*\(|\bSET\s+SESSION\s+\w|\bDISCARD\s+ALL\b|\bset_config\([^()]*,\s*false\s*\)`)
	for _, f := range t.files {
		if f.test() {
			continue
		}
		for _, s := range statements(f) {
			// A function may have a setting for its own duration.
			s = strings.ReplaceAll(s, "'search_path'", "") // the name of a setting that is read
			if s == "search_path" {
				continue // the server reports the setting under this name
			}
			s = strings.ReplaceAll(s, "SECURITY DEFINER SET search_path = pg_catalog", "")
			if strings.Contains(s, " FUNCTION ") {
				s = strings.ReplaceAll(s, "SET search_path = pg_catalog, pg_temp", "")
			}
			if hit := session.FindString(s); hit != "" {
				found = append(found, fmt.Sprintf("%s: a session is not ours: %q", f.path, hit))
			}
		}
		if f.ast == nil {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if at, ok := n.(*ast.IndexExpr); ok && spelled(at.Index) == `"replication"` {
				return false // a dedicated connection without a pool or a pooler
			}
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "RuntimeParams" {
				found = append(found, t.at(sel)+": a session is not ours: RuntimeParams")
			}
			return true
		})
	}
	return found
}

// checkDeadlines finds calls to a server that have no deadline: a dead connection would hold their caller
// forever. In pgstore the package sqlexec sets the deadline of each round trip, and the package wal that of
// its own connections. An inbox calls its broker in member.go alone, a relay in broker_calls.go.
func checkDeadlines(t tree) (found []string) {
	ways := map[string]*regexp.Regexp{
		"store/pgstore": regexp.MustCompile(`(?i)^(.*\.)?((pool|db)\.(Acquire|Conn|Begin|BeginTx|Ping|PingContext)|` +
			`(pool|db|conn)\.(SendBatch|(Exec|Query|QueryRow)(Context)?))$`),
		"inbox": regexp.MustCompile(`(?i)^(.*\.)?(bus\.\w+|\w+\.Subscribe)$`),
		"relay": regexp.MustCompile(`(?i)^(.*\.)?bus\.\w+$`),
	}
	free := []string{"store/pgstore/internal/sqlexec", "store/pgstore/internal/wal", "inbox/member.go",
		"relay/broker_calls.go"}
	for _, f := range t.files {
		dir := path.Dir(f.path)
		if !f.code() || slices.Contains(free, dir) || slices.Contains(free, f.path) {
			continue
		}
		for home, way := range ways {
			if !within(dir, home) {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && way.MatchString(spelled(call.Fun)) {
					found = append(found, t.at(call)+": "+spelled(call.Fun)+" has no deadline: call through "+
						strings.Join(free, " or "))
				}
				return true
			})
		}
	}
	return found
}

// loneAmong finds internal packages with fewer than two importers and without a reason in lone. It also
// finds reasons that no package needs.
func loneAmong(t tree) (found []string) {
	importers := map[string]map[string]bool{}
	for _, f := range t.files {
		if !f.code() {
			continue
		}
		if internal(f.dir) && importers[f.dir] == nil {
			importers[f.dir] = map[string]bool{}
		}
		for _, p := range f.imports() {
			if dir, is := ours(p); is && internal(dir) && dir != f.dir {
				if importers[dir] == nil {
					importers[dir] = map[string]bool{}
				}
				importers[dir][f.dir] = true
			}
		}
	}
	for dir, by := range importers {
		_, reason := lone()[dir]
		_, tests := onlyTests()[dir]
		switch {
		case len(by) < 2 && !reason && !tests:
			found = append(found, dir+": an internal package needs two importers, or a reason in lone")
		case len(by) > 1 && reason:
			found = append(found, dir+" has several importers: remove it from lone")
		}
	}
	return found
}

func internal(dir string) bool { return slices.Contains(strings.Split(dir, "/"), "internal") }

// checkAliases finds public aliases of internal types. An error may be one.
func checkAliases(t tree) (found []string) {
	for _, f := range t.files {
		if !f.code() || internal(f.dir) {
			continue
		}
		hidden := map[string]bool{}
		for _, p := range f.imports() {
			if dir, is := ours(p); is && internal(dir) {
				hidden[path.Base(dir)] = true
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			spec, is := n.(*ast.TypeSpec)
			if !is || !spec.Assign.IsValid() || !spec.Name.IsExported() ||
				strings.HasSuffix(spec.Name.Name, "Error") || aliases()[f.dir+"."+spec.Name.Name] != "" {
				return true
			}
			typ := spec.Type
			if generic, is := typ.(*ast.IndexExpr); is {
				typ = generic.X
			}
			if sel, is := typ.(*ast.SelectorExpr); is {
				if pkg, is := sel.X.(*ast.Ident); is && hidden[pkg.Name] {
					found = append(found, t.at(spec)+": "+spec.Name.Name+" is an alias of an internal type")
				}
			}
			return true
		})
	}
	return found
}
