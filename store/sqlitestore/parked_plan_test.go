package sqlitestore

import (
	"database/sql"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// TestParkedMessagesStayCheap checks that 30,000 parked messages of one key do not slow down the next
// message. Each statement for that key or for another key uses an index: with new tables, with full tables,
// and after ANALYZE read a single key.
// Interleaving 12.
func TestParkedMessagesStayCheap(t *testing.T) {
	_, db, _ := fresh(t)
	text, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	asked := asksOf(t, text)
	check := func(when string) {
		for name, a := range asked {
			for _, line := range dear(t, db, a) {
				t.Errorf("%s, %s: %s:\n%s", when, name, line, strings.Join(planWith(t, db, a), "\n"))
			}
		}
	}
	run := func(q string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), q, args...); err != nil {
			t.Fatal(err)
		}
	}
	check("new")
	run(parkedRows, 1, 30_000)
	check("full")
	run("ANALYZE")
	check("all known to be of one key")
	found := 0
	for _, a := range asked { // the test must detect a plan without an index
		a.sql = regexp.MustCompile(` INDEXED BY \w+`).ReplaceAllString(a.sql, "")
		found += len(dear(t, db, a))
	}
	if found == 0 {
		t.Error("with plans as the statistics have them nothing is found")
	}
	run(parkedRows, 30_001, 40_000)
	check("with others that no statistics know")
	run("ANALYZE")
	check("with others")
}

// ask is a statement with its arguments.
type ask struct {
	sql  string
	args []any
}

// asksOf returns all statements on parked messages, except statements that only operators run, or for which
// no process waits. Their arguments are the first message of a key with thousands of messages, and another
// key.
func asksOf(t *testing.T, text map[string]string) map[string]ask {
	t.Helper()
	seldom := []string{"Belongings", "MoveParked",
		"KeptFor", "Keeping", "LeftTypes", "ListSteps", // they count or list all
		"RaiseStepFloors", "DeleteSteps", "Forecast", // of the retention: by the deleted steps
		"Parked", // see below
	}
	asks := map[string]ask{}
	for name, q := range text {
		if !strings.Contains(q, "skald_parked") || slices.Contains(seldom, name) {
			continue
		}
		for key, m := range map[string]struct {
			id    string
			place int
		}{"hot": {"m1", 1}, "cold": {"new", 40_000}} {
			var args []any
			switch name {
			case "FirstOfKey", "RoomOfKey", "OthersWait":
				args = []any{"stock", []byte(key), m.place - 1}
			case "FindParked", "InsertParked", "ReplaceParked", "UpdateParked", "DeleteParked", "StepBack",
				"RequeueParked", "RequeueDead", "LetGo":
				args = []any{"stock", "/o", m.id}
			case "FirstIsDue", "Prefetch", "NotePrefetch", "CountPrefetch":
				args = []any{m.place, 50}
			case "SomeDue", "NextDue":
				args = []any{"stock", "[]"}
			case "Claim":
				args = []any{"stock", 10, 60_000, "life", "[]"}
			case "Unclaim":
				args = []any{"stock", "l", "life"}
			default:
				t.Fatalf("%s: what is it asked for?", name)
			}
			asks[name+" "+key] = ask{q, padded(q, args)}
		}
	}
	no := false
	for name, what := range map[string]store.ParkedQuery{
		"a repeat of what is kept":  {Consumer: "stock", Identity: &store.Identity{Source: "/o", ID: "m1"}},
		"what every consumer tells": {Consumer: "stock", Failed: true, Dead: &no, Bare: true},
	} {
		q, args := withConditions(text["Parked"], what, 1000)
		asks[name] = ask{q, args}
	}
	if len(asks) < 30 {
		t.Fatalf("only %d statements: %v", len(asks), slices.Sorted(maps.Keys(asks)))
	}
	return asks
}

// padded returns args with a value for each parameter of q.
func padded(q string, args []any) []any {
	most := len(args)
	for _, m := range regexp.MustCompile(`\?(\d+)`).FindAllStringSubmatch(q, -1) {
		n, _ := strconv.Atoi(m[1])
		most = max(most, n)
	}
	return append(args, make([]any, most-len(args))...)
}

// dear returns the lines of a plan with a cost that grows with the number of parked messages.
func dear(t *testing.T, db *sql.DB, a ask) (lines []string) {
	t.Helper()
	// or by an alias of one letter
	table := regexp.MustCompile(`^(SCAN|SEARCH) (skald_parked|[a-z])\b`)
	cheap := regexp.MustCompile(
		`(COVERING )?INDEX sqlite_autoindex_skald_parked_1 \(consumer=\? AND source=\? AND id=\?\)$` +
			`|INDEX skald_parked_(key|front) \(consumer=\? AND key=\?( AND place>\?)?( AND place<\?)?\)$` +
			// the first message of its key, by its due time
			`|INDEX skald_parked_due \(consumer=\?( AND due[<>]\?)?\)$` +
			`|INDEX skald_parked_(call|failed) \(consumer=\? AND place>\?\)$` + // calls; failures
			`|INTEGER PRIMARY KEY \(rowid=\?\)$` +
			`|^SEARCH skald_parked$`) // the largest place
	for _, line := range planWith(t, db, a) {
		inner := line == "SCAN f" || line == "SCAN l" // of one row each: the result of RoomOfKey
		if strings.Contains(line, "TEMP B-TREE") || table.MatchString(line) && !inner &&
			!(strings.HasPrefix(line, "SEARCH") && cheap.MatchString(line)) {
			lines = append(lines, line)
		}
	}
	return lines
}

func planWith(t *testing.T, db *sql.DB, a ask) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+a.sql, a.args...)
	if err != nil {
		t.Fatalf("%s: %v", a.sql, err)
	}
	lines, err := sqlexec.Collect(rows, func(scan func(...any) error) (line string, err error) {
		var id, parent, unused int
		return line, scan(&id, &parent, &unused, &line)
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// parkedRows inserts parked messages: up to 30,000 of the key hot, then some with keys of their own.
const parkedRows = `INSERT INTO skald_parked (consumer, source, id, key, topic, type, data, envelope, bytes, partition, position, fault, attempts, due, waiting, blocks_key,
		first_error, first_host, last_error, last_host, kind, fingerprint, stack, version, running_count, running_bytes)
	WITH RECURSIVE n (g) AS (SELECT ?1 UNION ALL SELECT g + 1 FROM n WHERE g < ?2)
	SELECT 'stock', '/o', 'm' || g, CAST(CASE WHEN g <= 30000 THEN 'hot' ELSE 'k' || g END AS BLOB), 't', 'x', CAST('1' AS BLOB), CAST('{}' AS BLOB), 9, 'l', g, '',
		g = 1 OR g > 30000, unixepoch() * 1000 + CASE WHEN g > 30000 THEN 3600000 ELSE 0 END, g BETWEEN 2 AND 30000, 1, '', '', '', '', '', '', '', '', g, g * 9 FROM n`
