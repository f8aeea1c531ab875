package skald_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestHouseFails checks that each check fails for files that break its rule, and for no others.
func TestHouseFails(t *testing.T) {
	for _, k := range checks() {
		if !slices.ContainsFunc(broken(), func(b breach) bool { return b.check == k.name && b.want != "" }) {
			t.Errorf("nothing shows that the check of %s can fail", k.name)
		}
	}
	for _, c := range broken() {
		t.Run(c.name, func(t *testing.T) {
			all, err := read(fstest.MapFS{c.path: {Data: []byte(c.text)}})
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range checks() {
				found := strings.Join(k.run(all), "\n")
				switch {
				case k.name != c.check && found != "":
					t.Errorf("%s finds %s", k.name, found)
				case k.name == c.check && c.want == "" && found != "":
					t.Errorf("%s finds %s", k.name, found)
				case k.name == c.check && !strings.Contains(found, c.want):
					t.Errorf("%s finds %q, want %q", k.name, found, c.want)
				}
			}
		})
	}
}

type breach struct {
	name, path, text string
	check            string
	want             string // a part of the finding; empty if the check finds nothing
}

func importing(pkg string, paths ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\n", pkg)
	for _, p := range paths {
		fmt.Fprintf(&b, "import _ %q\n", p)
	}
	return b.String()
}

func broken() []breach {
	const ours = module + "/"
	return []breach{
		{"a station imports a station", "inbox/a.go", importing("inbox", ours+"outbox"),
			"imports", "inbox/a.go imports " + ours + "outbox"},
		{"a station imports a driver", "relay/a.go", importing("relay", ours+"store/memstore"),
			"imports", "which relay may not"},
		{"a station's subfolder imports a station", "relay/sub/a.go", importing("sub", ours+"outbox"),
			"imports", "which relay may not"},
		{"a station imports a vendor", "outbox/a.go", importing("outbox", "github.com/jackc/pgx/v5"),
			"imports", "which outbox may not"},
		{"a station imports an exporter", "outbox/a.go", importing("outbox", otel+"/sdk/trace"),
			"imports", "which outbox may not"},
		{"a station imports the telemetry API", "outbox/a.go", importing("outbox", otel+"/trace"),
			"imports", ""},
		{"a station imports what it may", "inbox/a.go", importing("inbox", "context", module, ours+"store",
			ours+"broker", ours+"internal/complete", ours+"inbox/sub"), "imports", ""},
		{"a station imports what stands above", "inbox/a.go", importing("inbox", ours+"examples/shop"),
			"imports", "which inbox may not"},
		{"the root imports", "a.go", importing("skald", ours+"store"), "imports", "a.go imports"},
		{"what is below imports upward", "call/a.go", importing("call", ours+"once"),
			"ranks", "which is of rank"},
		{"what is below imports downward", "once/a.go",
			importing("once", ours+"call", ours+"internal/fingerprint", ours+"internal/complete"), "ranks", ""},
		{"verbs import the demo", "cmd/skald/internal/verbs/a.go",
			importing("verbs", ours+"cmd/skald/internal/demo"), "ranks", "which is of rank"},
		{"verbs import the packages below them", "cmd/skald/internal/verbs/a.go",
			importing("verbs", ours+"cmd/skald/internal/cli", ours+"operate"), "ranks", ""},
		{"a seam imports the other", "store/a.go", importing("store", ours+"broker"),
			"imports", "which store may not"},
		{"a seam imports a leaf", "broker/a.go", importing("broker", ours+"internal/column"),
			"imports", "which broker may not"},
		{"a seam imports its driver", "store/a.go", importing("store", ours+"store/memstore"),
			"imports", "which store may not"},
		{"a driver imports another seam", "store/pgstore/a.go", importing("pgstore", ours+"broker"),
			"imports", "which store/pgstore may not"},
		{"a driver imports a driver", "store/pgstore/a.go", importing("pgstore", ours+"store/memstore"),
			"imports", "which store/pgstore may not"},
		{"a driver imports two vendors", "store/pgstore/a.go", importing("pgstore", "github.com/jackc/pgx/v5",
			"modernc.org/sqlite"), "imports", "imports modernc.org/sqlite"},
		{"a driver imports what it may", "broker/kafkabroker/a.go", importing("kafkabroker", module,
			ours+"broker", ours+"internal/backoff", "github.com/twmb/franz-go/pkg/kgo"), "imports", ""},
		{"a leaf imports a station", "internal/leaf/a.go", importing("leaf", ours+"outbox"),
			"imports", "which internal may not"},
		{"a leaf imports a driver", "internal/leaf/a.go", importing("leaf", ours+"broker/membroker"),
			"imports", "which internal may not"},
		{"an example imports a leaf", "examples/shop/a.go", importing("shop", ours+"internal/backoff"),
			"imports", "which examples may not"},
		{"an example imports the command", "examples/shop/a.go", importing("shop", ours+"cmd/skald"),
			"imports", "which examples may not"},
		{"the command imports an example", "cmd/skald/a.go", importing("main", ours+"examples/shop"),
			"imports", "which cmd may not"},
		{"the demo imports all", "cmd/skald/internal/demo/a.go", importing("demo", ours+"store/pgstore",
			ours+"examples/shop", ours+"sagatest", "github.com/spf13/cobra"), "imports", ""},
		{"a suite imports a server's driver", "store/storetest/a.go",
			importing("storetest", ours+"store/memstore", ours+"store/pgstore"), "imports",
			"imports " + ours + "store/pgstore"},
		{"a suite imports a vendor", "broker/brokertest/a.go",
			importing("brokertest", "github.com/twmb/franz-go/pkg/kgo"), "imports",
			"which broker/brokertest may not"},
		{"sagatest imports a vendor", "sagatest/a.go", importing("sagatest", "pgregory.net/rapid"),
			"imports", "which sagatest may not"},
		{"a folder without a rule", "stray/a.go", importing("stray"), "imports", "has no rule"},
		{"a driver without a rule", "store/otherstore/a.go", importing("otherstore"),
			"imports", "has no rule"},
		{"a test is free", "outbox/a_test.go", importing("outbox_test", ours+"store/memstore",
			ours+"store/storetest", "pgregory.net/rapid"), "imports", ""},

		{"code imports the suite", "store/memstore/a.go", importing("memstore", "testing"), "only tests",
			"which is for tests"},
		{"code asks for servers", "inbox/a.go", importing("inbox", ours+"internal/need"), "only tests",
			"which is for tests"},
		{"the test kit imports testing", "sagatest/a.go",
			importing("sagatest", "testing", ours+"store/storetest"), "only tests", ""},

		{"behaviour in a seam", "store/a.go", "package store\nfunc Open(url string) error { return nil }\n",
			"seams", "Open is behaviour"},
		{"a method in a seam", "broker/a.go",
			"package broker\ntype Shard struct{}\nfunc (l *Shard) Pause() {}\n", "seams",
			"Pause is behaviour"},
		{"an error in a seam", "store/a.go",
			"package store\ntype E struct{}\nfunc (*E) Error() string { return \"\" }\nfunc (E) First() error { return nil }\nfunc Bad(err error) bool { return false }\n", "seams", ""},

		{"a long file", "outbox/a.go", "package outbox\n" + strings.Repeat("//\n", maxFile),
			"sizes", "has 801 lines"},
		{"a long test", "outbox/a_test.go", "package outbox\n" + strings.Repeat("//\n", maxFile),
			"sizes", "has 801 lines"},
		{"a wide comment", "outbox/a.go", "package outbox\n\n\t// " + strings.Repeat("x", maxWide-6) + "\n",
			"width", "111 columns"},
		{"wide code", "outbox/a.go", "package outbox\n\nconst _ = 1" + strings.Repeat(" + 1", 30) + "\n", "width",
			"131 columns"},
		{"a wide text", "outbox/a.go", "package outbox\n\nconst _ = `" + strings.Repeat("x", maxWide) + "`\n",
			"width", ""},
		{"a wide table", "outbox/a.go", "package outbox\n\n//\t" + strings.Repeat("x", maxWide) + "\n",
			"width", ""},
		{"a full file", "outbox/a.go", "package outbox\n" + strings.Repeat("//\n", maxFile-1), "sizes", ""},
		{"a long function", "outbox/a.go", "package outbox\nfunc f() {\n" +
			strings.Repeat("//\n", maxFunc-1) + "}\n", "sizes", "f has 71 lines"},
		{"a long method", "outbox/a.go", "package outbox\ntype T struct{}\nfunc (T) f() {\n" +
			strings.Repeat("//\n", maxFunc) + "}\n", "sizes", "f has 72 lines"},
		{"a long test function", "outbox/a_test.go", "package outbox\nfunc f() {\n" +
			strings.Repeat("//\n", maxFunc) + "}\n", "sizes", ""},

		{"a global", "inbox/a.go", "package inbox\nvar cache = map[string]int{}\n", "variables",
			"the package variable cache"},
		{"a global without a value", "inbox/a.go", "package inbox\nimport \"sync\"\nvar mu sync.Mutex\n",
			"variables", "the package variable mu"},
		{"a global in a group", "inbox/a.go",
			"package inbox\nimport \"errors\"\nvar (\n\tErrA = errors.New(\"a\")\n\tn = 1\n)\n", "variables",
			"the package variable n"},
		{"an error of another name", "inbox/a.go", "package inbox\nvar ErrA = exec.ErrB\n", "variables",
			"the package variable ErrA"},
		{"an error that is passed on", "inbox/a.go", "package inbox\nvar ErrA = exec.ErrA\n",
			"variables", ""},
		{"an error that is none", "inbox/a.go", "package inbox\nvar ErrN = f()\nfunc f() int { return 0 }\n",
			"variables", "the package variable ErrN"},
		{"allowed variables", "inbox/a.go",
			"package inbox\nimport (\n\t\"embed\"\n\t\"errors\"\n\t\"io\"\n\t\"" + module +
				"\"\n)\nvar (\n\tErrA = errors.New(\"a\")\n\terrB = errors.New(\"b\")\n)\nvar _ io.Reader = (*T)(nil)\ntype T struct{ io.Reader }\n//go:embed sql\nvar files embed.FS\nvar Placed = skald.Event[T]{Topic: \"t\"}\n", "variables", ""},
		{"a saga", "examples/a.go", "package examples\nimport \"" + module +
			"/saga\"\nvar Approved = saga.Signal[T]{Name: \"a\"}\nvar hold = saga.Wait[T](\"b\", Approved)\nvar Orders = saga.New(\"c\", &saga.Options[T]{}, hold)\n", "variables", ""},

		{"an init", "outbox/a.go", "package outbox\nfunc init() {}\n", "init and panic", "no init functions"},
		{"a panic", "outbox/a.go", "package outbox\nfunc F() { defer func() { panic(\"no\") }() }\n",
			"init and panic", "no panics"},
		{"a panic that goes on", "outbox/a.go", "package outbox\nfunc F() { v := recover(); panic(v) }\n",
			"init and panic", ""},
		{"a method called init", "outbox/a.go", "package outbox\ntype T struct{}\nfunc (T) init() {}\n",
			"init and panic", ""},

		{"a vague folder", "internal/util/a.go", "package text\n", "package names", `"util" says nothing`},
		{"a vague package", "internal/text/a_test.go", "package types_test\n", "package names",
			`"types" says nothing`},

		{"a schema set on the connection", "store/pgstore/a.go",
			"package pgstore\nfunc f(c *config) { c.RuntimeParams[\"x\"] = \"y\" }\n", "no session state",
			"RuntimeParams"},
		{"a lock of the session", "store/pgstore/sql/a.sql", "-- name: A\nSELECT pg_advisory_lock(1);\n",
			"no session state", "pg_advisory_lock("},
		{"a schema set in SQL", "store/pgstore/sql/a.sql",
			"-- name: A\nSELECT set_config('x', 'y', false);\n", "no session state", "set_config("},
		{"a lock of the transaction", "store/pgstore/sql/a.sql",
			"-- name: A\nSELECT pg_advisory_xact_lock(1), set_config('x', 'y', true);\n",
			"no session state", ""},
		{"a setting of the session", "store/pgstore/sql/a.sql", "-- name: A\nSET SESSION x = 1;\n",
			"no session state", "SET SESSION"},
		{"a column of the name", "store/pgstore/sql/a.sql", "-- name: A\nUPDATE x SET session = 1;\n",
			"no session state", ""},
		{"a table at run time", "store/pgstore/a.go",
			"package pgstore\nconst q = `create  unlogged\n table x ()`\n", "no DDL at run time",
			"DDL outside a migration"},
		{"a table in a statement", "store/pgstore/sql/a.sql", "-- name: A\nALTER TABLE x ADD y int;\n",
			"no DDL at run time", "DDL outside a migration"},
		{"a trigger at run time", "relay/a.go",
			"package relay\nconst q = \"CREATE OR REPLACE FUNCTION f()\"\n", "no DDL at run time",
			"DDL outside a migration"},
		{"a migration drops", "store/pgstore/migration/001_a.sql",
			"CREATE TABLE x ();\nDROP TABLE IF EXISTS y;\n", "no DDL at run time",
			"a migration that drops a table"},
		{"a migration", "store/pgstore/migration/001_a.sql",
			"CREATE TABLE x (); -- DROP TABLE y\nALTER TABLE x ADD y int;\n", "no DDL at run time", ""},
		{"a migrator", "store/pgstore/a.go",
			"package pgstore\ntype migrator struct{}\nfunc (*migrator) f() string { return \"ALTER TABLE x\" }\n", "no DDL at run time", ""},
		{"beside a migrator", "store/pgstore/a.go",
			"package pgstore\ntype migrator struct{}\nfunc f() string { return \"ALTER TABLE x\" }\n",
			"no DDL at run time", "DDL outside a migration"},
		{"the book of migrations", "store/pgstore/sql/migration.sql", "-- name: A\nCREATE TABLE x ();\n",
			"no DDL at run time", ""},
		{"a comment on DDL", "store/pgstore/sql/a.sql", "-- name: A\n-- not CREATE TABLE\nSELECT 1;\n",
			"no DDL at run time", ""},
		{"the demo's tables", "examples/shop/sql/a.sql", "CREATE TABLE orders ();\n",
			"no DDL at run time", ""},

		{"a statement outside sqlexec", "store/pgstore/a.go",
			"package pgstore\nfunc (s *Store) f() { s.pool.QueryRow(s.ctx, \"\") }\n", "deadlines",
			"s.pool.QueryRow has no deadline"},
		{"a connection outside sqlexec", "store/pgstore/internal/query/a.go",
			"package query\nfunc f() { db.Conn(ctx) }\n", "deadlines", "db.Conn has no deadline"},
		{"a batch outside sqlexec", "store/pgstore/a.go", "package pgstore\nfunc f() { conn.SendBatch(ctx, b) }\n",
			"deadlines", "conn.SendBatch has no deadline"},
		{"a connection of sqlexec", "store/pgstore/internal/sqlexec/a.go", "package sqlexec\nfunc f() { pool.Acquire(ctx) }\n",
			"deadlines", ""},
		{"a consumer joins by itself", "inbox/a.go", "package inbox\nfunc f() { in.bus.Subscribe(ctx, g) }\n",
			"deadlines", "in.bus.Subscribe has no deadline"},
		{"a consumer joins by member.go", "inbox/member.go",
			"package inbox\nfunc f() { bus.Subscribe(ctx, g) }\n", "deadlines", ""},
		{"a relay publishes by itself", "relay/a.go",
			"package relay\nfunc f() { r.bus.Publish(ctx, m, ids) }\n", "deadlines",
			"r.bus.Publish has no deadline"},
		{"an alias of an internal type", "relay/a.go",
			importing("relay", ours+"internal/vitals") + "type Server = vitals.Server\n",
			"aliases", "Server is an alias"},
	}
}

// TestHouseSkips checks that the rules do not apply to nested modules and to folders that the go command
// skips.
func TestHouseSkips(t *testing.T) {
	all, err := read(fstest.MapFS{
		"go.mod":             {Data: []byte("module x\n")},
		"a.go":               {Data: []byte("package skald\n")},
		"bench/go.mod":       {Data: []byte("module y\n")},
		"bench/deep/b.go":    {Data: []byte("package deep\n")},
		"x/testdata/c.go":    {Data: []byte("package c\n")},
		".services/go/d.go":  {Data: []byte("package d\n")},
		"docs/statement.sql": {Data: []byte("SELECT 1;\n")},
		"docs/picture.svg":   {Data: []byte("<svg/>")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range all.files {
		got = append(got, f.path)
	}
	if want := "a.go docs/statement.sql"; strings.Join(got, " ") != want {
		t.Errorf("read %v, want %s", got, want)
	}
}
