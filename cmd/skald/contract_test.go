package main_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store/sqlitestore"
)

// A promised is a table or view as docs/sql.md has it, a string for each column: "column type default".
type promised map[string][]string

// contract reads the columns below each heading of the page that is a name. The columns are a list
// ("- `id`, `topic` text: …"), or a table with defaults.
func contract(t *testing.T) (page string, all promised) {
	t.Helper()
	text, err := os.ReadFile("../../docs/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	heading := regexp.MustCompile(`^##+ (skald_\w+)$`)
	column := regexp.MustCompile("`(\\w+)`([^`]*)")
	all, at := promised{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if m := heading.FindStringSubmatch(line); m != nil {
			at = m[1]
		} else if strings.HasPrefix(line, "## ") {
			at = ""
		}
		if at == "" || !strings.HasPrefix(line, "| `") && !strings.HasPrefix(line, "- `") {
			continue
		}
		columns, _, _ := strings.Cut(line, ": ") // a list; the table has cells
		defaults := ""
		if cells := strings.Split(line, "|"); len(cells) == 6 {
			columns, defaults = cells[1]+cells[2], strings.Trim(cells[3], "` ")
		}
		var untyped []string // columns that share the next type
		for _, m := range column.FindAllStringSubmatch(columns, -1) {
			untyped = append(untyped, m[1])
			if kind := strings.Trim(m[2], ", "); kind != "" {
				for _, c := range untyped {
					all[at] = append(all[at], strings.TrimSpace(c+" "+kind+" "+defaults))
				}
				untyped = nil
			}
		}
	}
	if len(all) < 12 {
		t.Fatalf("the page has %d tables and views", len(all))
	}
	return string(text), all
}

func TestContractPostgres(t *testing.T) {
	t.Parallel()
	page, all := contract(t)
	at, conn := postgres(t)
	start(t, []string{"SKALD_STORE=" + at}, "migrate", "--schema", "a", "--source", "/it").expect(0)
	rows, err := conn.Query(t.Context(), `SELECT c.relname, a.attname || ' ' ||
			CASE t.typtype WHEN 'd' THEN format_type(t.typbasetype, -1) ELSE format_type(a.atttypid, a.atttypmod) END ||
			CASE WHEN a.attnotnull THEN ', not null' ELSE '' END || ' ' ||
			CASE WHEN a.attidentity <> '' THEN 'identity' WHEN a.attname = 'slot' THEN 'the day' WHEN a.attname = 'source' AND c.relkind <> 'v' THEN 'the source'
				ELSE coalesce(pg_get_expr(d.adbin, d.adrelid), '') END
		FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped JOIN pg_type AS t ON t.oid = a.atttypid
		LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
		WHERE c.relnamespace = 'a'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition ORDER BY c.relname, a.attnum`)
	if err != nil {
		t.Fatal(err)
	}
	live := promised{}
	short := strings.NewReplacer("timestamp with time zone", "timestamptz", "::text", "",
		"a.skald_", "skald_")
	var name, column string
	if _, err := pgx.ForEachRow(rows, []any{&name, &column}, func() error {
		live[name] = append(live[name], strings.TrimSpace(short.Replace(column)))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for name, columns := range live {
		if !strings.Contains(page, "`"+name+"`") && all[name] == nil {
			t.Errorf("the page says nothing of %s", name)
		}
		if want := all[name]; want != nil && !slices.Equal(columns, want) {
			t.Errorf("%s has\n%s\nthe page says\n%s", name, strings.Join(columns, "\n"),
				strings.Join(want, "\n"))
		}
		delete(all, name)
	}
	for name := range all {
		t.Errorf("there is no %s", name)
	}
	for _, index := range regexp.MustCompile(`CREATE INDEX [^;]*;`).FindAllString(page, -1) {
		if _, err := conn.Exec(t.Context(), strings.ReplaceAll(index, " skald_", " a.skald_")); err != nil {
			t.Errorf("%s: %v", index, err)
		}
	}
}

func TestContractSQLite(t *testing.T) {
	t.Parallel()
	page, all := contract(t)
	path := filepath.Join(t.TempDir(), "o.db")
	start(t, nil, "migrate", "--store", "sqlite:"+path).expect(0)
	db, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for name, want := range all {
		var columns []string
		for _, c := range want {
			columns = append(columns, strings.Fields(c)[0])
		}
		if name == "skald_outbox" {
			columns = slices.DeleteFunc(append(columns, "stored_at"),
				func(c string) bool { return c == "txid" || c == "slot" })
		}
		have := strings.Split(text(t, db, `SELECT group_concat(name) FROM pragma_table_info(?)`, name), ",")
		slices.Sort(columns)
		if slices.Sort(have); !slices.Equal(have, columns) {
			t.Errorf("%s has\n%v\nthe page says\n%v", name, have, columns)
		}
	}
	for name := range strings.SplitSeq(text(t, db,
		`SELECT group_concat(name) FROM sqlite_schema WHERE type IN ('table', 'view') AND name LIKE 'skald%'`), ",") {
		if all[name] == nil && !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the page says nothing of %s", name)
		}
	}
}

func text(t *testing.T, db *sql.DB, q string, args ...any) (s string) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), q, args...).Scan(&s); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return s
}

// The SQL of the page, and that of the runbook, runs as it stands there.
func TestSQLOfTheContract(t *testing.T) {
	t.Parallel()
	page, _ := contract(t)
	at, conn := postgres(t)
	start(t, []string{"SKALD_STORE=" + at}, "migrate").expect(0)
	do(t, conn, "CREATE TABLE account (tenant text)")
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) < 3 {
		t.Fatalf("the page has %d blocks of SQL", len(blocks))
	}
	for _, b := range blocks {
		do(t, conn, b[1])
	}
	if n := count(conn, "SELECT count(*) FROM skald_outbox_pending WHERE topic = 'orders'"); n != 1 {
		t.Errorf("%d messages are pending", n)
	}
	runbook, err := os.ReadFile("../../docs/operations.md")
	must(t, err)
	looks := regexp.MustCompile("(?m)^    (SELECT [^;]*);").FindAllStringSubmatch(string(runbook), -1)
	if len(looks) < 5 {
		t.Fatalf("the runbook has %d looks by SQL", len(looks))
	}
	for _, look := range looks {
		do(t, conn, look[1])
	}
	if retired := regexp.MustCompile("`(DELETE FROM skald_consumer [^`]*)`").FindSubmatch(
		runbook); retired == nil {
		t.Error("the runbook does not say how a consumer that was given up is forgotten")
	} else {
		do(t, conn, string(retired[1]))
	}
}
