package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// A morgue is a database with dead letters of the consumer stock, and that consumer, which runs in this
// process.
type morgue struct {
	*bed
	mu    sync.Mutex
	fails map[string]bool // by payload
	no    map[string]bool // what is rejected
	runs  []string        // payloads that a handler was given
}

func newMorgue(t *testing.T) *morgue { return morgueOn(onSQLite(t)) }

func morgueOn(b *bed) *morgue { return &morgue{bed: b.migrate(), fails: map[string]bool{}} }

// bury keeps the n-th message as a dead letter of its own key, or of key.
func (m *morgue) bury(n int, key string, change func(p *store.Parked)) {
	m.t.Helper()
	id := fmt.Sprintf("m-%02d", n)
	if key == "" {
		key = "k-" + id
	}
	p := store.Parked{Consumer: "stock", Identity: store.Identity{Source: "/orders", ID: id},
		Partition: "orders/1", Position: int64(n), Attempts: 25,
		Message: skald.Message{ID: id, Source: "/orders", Topic: "orders", Type: "placed", Key: []byte(key),
			Data: fmt.Appendf(nil, "%q", id), ContentType: "application/json"},
		First: store.Failure{At: time.Now().Add(-time.Hour), Why: "first", Host: "a"},
		Last:  store.Failure{At: time.Now(), Why: "no such column", Host: "b"},
		Dead: &store.Death{At: time.Now(), Kind: "attempts", Fingerprint: "abc", BlocksKey: true,
			Version: "v1"}}
	if change != nil {
		change(&p)
	}
	if stood, err := m.s.Apply(m.t.Context(), store.Effect{Park: &store.Park{Parked: p}}); err != nil ||
		!stood[0] {
		m.t.Fatalf("%v %v", stood, err)
	}
}

// run starts the consumer; it fails on what is told, and notes what it was given.
func (m *morgue) run() {
	m.bed.run(m.bus("orders"), "stock", "orders", "placed",
		inbox.Options{Retry: inbox.Retry{InitialInterval: time.Hour,
			MaxInterval: time.Hour}}, func(msg skald.Message) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			what := strings.Trim(string(msg.Data), `"`)
			if m.runs = append(m.runs, what); m.fails[what] {
				return skald.Permanent(errors.New("still no such column"))
			}
			if m.no[what] {
				return skald.Reject(errors.New("no"))
			}
			return nil
		})
}

func (m *morgue) ran() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.runs...)
}

// told is what a command that would ask prints with --json. What waits for the consumer has five minutes.
func (m *morgue) told(code int, args ...string) map[string]any {
	m.t.Helper()
	paced := func(arg string) bool {
		return slices.Contains([]string{"--canary", "--rate", "--max-error-ratio"}, arg)
	}
	if args[1] == "redrive" && slices.ContainsFunc(args, paced) {
		args = append(args, "--wait", "5m")
	}
	return m.said(code, append(args, "--yes")...)
}

func (m *morgue) said(code int, args ...string) map[string]any {
	m.t.Helper()
	p := start(m.t, m.env, append(args, "--json")...)
	p.expect(code)
	out := map[string]any{}
	lines := strings.Split(strings.TrimSpace(p.out.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &out); err != nil {
		m.t.Fatalf("%v in %s%s", err, &p.out, &p.errs)
	}
	return out
}

func wants(t *testing.T, got map[string]any, want map[string]any) {
	t.Helper()
	for k, v := range want {
		if fmt.Sprint(got[k]) != fmt.Sprint(v) {
			t.Errorf("%s is %v, want %v, in %v", k, got[k], v, got)
		}
	}
}

// One goes first; the others go when it has succeeded, and not when it failed again.
func TestRedriveWithACanary(t *testing.T) { onEachStore(t, testRedriveWithACanary) }

func testRedriveWithACanary(t *testing.T, fresh func(*testing.T) *bed) {
	m := morgueOn(fresh(t))
	for n := range 6 {
		m.bury(n, "", func(p *store.Parked) {
			if n == 3 {
				p.Message.Type, p.Dead.Fingerprint = "changed", "other"
			}
		})
	}
	m.fails["m-00"] = true
	m.run()
	wants(t, m.told(8, "dead", "redrive", "--type", "placed", "--canary", "--reason", "mended"),
		map[string]any{"meant": 5, "done": 1, "failed": 1, "succeeded": 0})
	if got := fmt.Sprint(m.ran()); got != "[m-00]" {
		t.Fatalf("the handler was given %s", got)
	}
	m.mu.Lock()
	m.fails = nil
	m.mu.Unlock()
	// The first run has ended: this is another one.
	wants(t, m.told(0, "dead", "redrive", "--type", "placed", "--canary", "--reason", "mended", "--by",
		"ann"), map[string]any{"meant": 5, "done": 5, "failed": 0,
		"succeeded": 5, "open": 0, "stopped": ""})
	if got := m.ran(); len(got) != 6 || got[1] != "m-00" {
		t.Errorf("the handler was given %v", got)
	}
	said := text(t, m.db,
		`SELECT string_agg(action || '/' || author || '/' || id, ' | ' ORDER BY seq) FROM skald_audit WHERE author = 'ann'`)
	if !strings.HasSuffix(said,
		"redrive/ann/m-05 | redrive ended: 5 redriven, 5 succeeded, 0 rejected, 0 failed again, 0 not handled yet/ann/") {
		t.Errorf("the audit has %s", said)
	}
	p := start(t, m.env, "dead", "redrive", "--fingerprint", "other", "--canary", "--reason", "mended",
		"--yes", "--wait", "1s")
	p.expect(1, "was not handled within 1s") // no handler is for it
	if took := m.taken(); len(took) != len("m-00 m-01 m-02 m-04 m-05") || m.count("skald_mark") != 5 ||
		m.count("skald_parked") != 1 {
		t.Errorf("effects of %s, %d marks, %d kept", took, m.count("skald_mark"), m.count("skald_parked"))
	}
}

// redriveForLong is how many at one a second are not done before the test has seen what it waits for, on any
// machine.
const redriveForLong = 300

// The rate is kept to, and too many that fail again are the end of it.
func TestRedriveStopsWhenTooManyFailAgain(t *testing.T) {
	onEachStore(t, testRedriveStopsWhenTooManyFailAgain)
}

func testRedriveStopsWhenTooManyFailAgain(t *testing.T, fresh func(*testing.T) *bed) {
	m := morgueOn(fresh(t))
	for n := range redriveForLong {
		m.bury(n, "", nil)
		m.fails[fmt.Sprintf("m-%02d", n)] = n > 0
	}
	m.run()
	got := m.told(8, "dead", "redrive", "--all", "--canary", "--rate", "1", "--max-error-ratio", "0.2",
		"--reason", "half mended")
	failed, done := got["failed"].(float64), got["done"].(float64)
	if failed < 3 || done == redriveForLong || m.taken() != "m-00" ||
		m.count("skald_parked") != redriveForLong-1 ||
		m.count("skald_audit WHERE action = 'redrive'") != int(done) ||
		!strings.Contains(fmt.Sprint(got["stopped"]), "failed again: handle placed") {
		t.Errorf("%v", got)
	}
	begun := time.Now()
	m.mu.Lock()
	m.fails = nil
	m.mu.Unlock()
	again := m.told(0, "dead", "redrive", "--all", "--rate", "100", "--reason", "mended")
	wants(t, again, map[string]any{"failed": 0, "open": 0})
	if took, least := time.Since(begun), time.Duration(
		again["done"].(float64))*5*time.Millisecond; took < least {
		t.Errorf("%v at 100 a second took %v", again["done"], took)
	}
	if m.count("skald_parked") != 0 || m.count("taken") != redriveForLong ||
		m.count("skald_mark") != redriveForLong {
		t.Errorf("%d are kept, %d took effect, %d have marks", m.count("skald_parked"), m.count("taken"),
			m.count("skald_mark"))
	}
}

// Killed at any moment, the same command goes on where it was: each is redriven once, and one that is dead
// again stays so.
func TestRedriveGoesOnAfterItWasKilled(t *testing.T) {
	onEachStore(t, testRedriveGoesOnAfterItWasKilled)
}

func testRedriveGoesOnAfterItWasKilled(t *testing.T, fresh func(*testing.T) *bed) {
	m := morgueOn(fresh(t))
	for n := range redriveForLong {
		m.bury(n, []string{"", "one-key"}[n%2], nil)
	}
	m.fails["m-02"] = true
	m.run()
	args := []string{"dead", "redrive", "--fingerprint", "abc", "--canary", "--reason", "mended"}
	for kills := range 3 {
		p := start(t, m.env, append(args, "--rate", "1", "--wait", "5m", "--yes")...)
		p.until("some are redriven", func() bool {
			return m.count("skald_audit WHERE action = 'redrive'") >= 2+3*kills
		})
		p.kill()
	}
	args = append(args, "--rate", "1000") // the same run, whatever its rate
	const all = redriveForLong
	wants(t, m.told(0, args...), map[string]any{"meant": all, "done": all, "failed": 1, "succeeded": all - 1,
		"open": 0, "stopped": ""})
	if n := text(t, m.db,
		"SELECT max(n) || ' ' || count(*) FROM (SELECT count(*) AS n FROM skald_audit WHERE action = 'redrive' GROUP BY id) AS each"); n != fmt.Sprint("1 ", all) {
		t.Errorf("the audit has, at most of one and in all, %s", n)
	}
	counts := map[string]int{}
	for _, what := range m.ran() {
		counts[what]++
	}
	if len(counts) != all || counts["m-02"] != 1 {
		t.Errorf("the handler was given %v", counts)
	}
	if kept := text(t, m.db, "SELECT string_agg(id, ' ') FROM skald_parked"); kept != "m-02" {
		t.Errorf("kept are %s", kept)
	}
	if took := text(t, m.db, "SELECT count(*) || ' ' || count(DISTINCT id) FROM taken"); took != fmt.Sprint(
		all-1, " ", all-1) {
		t.Errorf("as many took effect, and as many of them are different: %s", took)
	}
}

// A dry run says what would happen, and a rejection is left.
func TestRedriveDryRun(t *testing.T) { onEachStore(t, testRedriveDryRun) }

func testRedriveDryRun(t *testing.T, fresh func(*testing.T) *bed) {
	m := morgueOn(fresh(t))
	m.bury(1, "k", func(p *store.Parked) { p.Message.Topic = "payments" })
	m.bury(2, "k", nil)
	m.bury(3, "l", nil)
	m.bury(4, "l", func(p *store.Parked) { p.Dead.At = time.Now().Add(-2 * time.Hour) })
	m.bury(5, "x", func(p *store.Parked) { p.Dead.Kind = "rejected" })
	wants(t, m.told(0, "dead", "redrive", "--dry-run", "--topic", "orders"),
		map[string]any{"meant": 4, "done": 3, "keys": 2, "behind": 1, "rejections": 1})
	wants(t, m.told(0, "dead", "redrive", "--dry-run", "--since", "1h", "--kind", "attempts"),
		map[string]any{"meant": 3})
	wants(t, m.told(0, "dead", "redrive", "--dry-run", "--until", "1h"), map[string]any{"meant": 1})
	start(t, m.env, "dead", "redrive", "--dry-run", "--until", "2020-01-01T00:00:00Z").expect(0,
		"no message is selected")
	start(t, m.env, "dead", "redrive", "--dry-run", "--since", "soon").expect(2, "--since")
	if m.count("skald_parked WHERE dead_at IS NOT NULL") != 5 || m.count("skald_audit") != 0 {
		t.Error("a dry run has changed something")
	}
}

// What is at a call to the outside is exported with it, and not imported: there nobody would know that it is
// under way.
func TestImportLeavesWhatIsAtACall(t *testing.T) {
	t.Parallel()
	m, other := newMorgue(t), newMorgue(t)
	m.bury(1, "", nil)
	m.bury(2, "", func(p *store.Parked) {
		p.Call = &store.Call{Key: "k\xff", Request: "{}", Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			Outcome: "1"}
	})
	p := start(t, m.env, "dead", "export")
	p.expect(0)
	lines := strings.SplitAfter(p.out.String(), "\n")
	if want := `"call":{"since":"2026-01-02T03:04:05Z","key":{"bytes":"a/8="},"request":"{}","outcome":"1"}`; !strings.Contains(lines[1], want) || strings.Contains(lines[0], `"call"`) {
		t.Errorf("exported is %s", &p.out)
	}
	file := filepath.Join(t.TempDir(), "dead.jsonl")
	must(t, os.WriteFile(file, []byte(p.out.String()), 0o600))
	wants(t, other.told(0, "dead", "import", file, "--dry-run"), map[string]any{"meant": 2, "done": 1})
	p = start(t, other.env, "dead", "import", file, "--reason", "moved", "--yes")
	p.expect(0)
	if !strings.Contains(p.out.String(), "left\tat a call\tstock\tm-02\n") ||
		!strings.Contains(p.out.String(), "1 of 2") {
		t.Errorf("said %s", &p.out)
	}
	if ids := text(t, other.db, "SELECT group_concat(id) FROM skald_parked"); ids != "m-01" {
		t.Errorf("kept are %s", ids)
	}
}

// Exported and imported, a dead letter is what it was, byte for byte; what is finished or kept is left, and a
// repeat changes nothing.
func TestExportAndImport(t *testing.T) {
	t.Parallel()
	m := newMorgue(t)
	m.bury(1, "", nil)
	m.bury(2, "", func(p *store.Parked) {
		p.ID, p.Message.ID, p.Fault, p.Partition = "odd \xff", "odd \xff\x00", "no \xfe envelope", "l\xff"
		p.Message.Key, p.Message.Data, p.Message.Subject = []byte{0, 0xff}, []byte{0, 1, 0xff}, "s\x00"
		p.Message.Headers = []skald.Header{{Name: "x", Value: []byte{0}}, {Name: "x"},
			{Name: "y\xff", Value: []byte{}}}
		p.Message.Time = time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC)
		p.Dead.Stack, p.Last.Why = "goroutine 1\n\xff", strings.Repeat("ö", 2000)
	})
	m.bury(3, "", func(p *store.Parked) { p.Message.Key, p.Message.Data, p.Dead.BlocksKey = nil, nil, false })
	file := filepath.Join(t.TempDir(), "dead.jsonl")
	export := func(m *morgue) []byte {
		t.Helper()
		p := start(t, m.env, "dead", "export")
		p.expect(0)
		return []byte(p.out.String())
	}
	must(t, os.WriteFile(file, export(m), 0o600))

	other := newMorgue(t)
	start(t, other.env, "dead", "import", file, "--yes").expect(2, "--reason")
	start(t, other.env, "dead", "import", file, "--reason", "moved").expect(2, "--yes")
	wants(t, other.told(0, "dead", "import", file, "--dry-run"),
		map[string]any{"meant": 3, "done": 3, "dry_run": true})
	wants(t, other.told(0, "dead", "import", file, "--reason", "moved", "--by", "ann"),
		map[string]any{"meant": 3, "done": 3})
	yes := true
	before, err := store.ListParked(t.Context(), m.s, store.ParkedQuery{Dead: &yes, Limit: 10})
	must(t, err)
	after, err := store.ListParked(t.Context(), other.s, store.ParkedQuery{Dead: &yes, Limit: 10})
	must(t, err)
	for i := range before {
		before[i].Since, after[i].Since = time.Time{}, time.Time{}
	}
	if len(before) != 3 || !reflect.DeepEqual(before, after) {
		t.Errorf("%+v\ncame over as\n%+v", before, after)
	}
	wants(t, other.told(0, "dead", "import", file, "--reason", "moved"),
		map[string]any{"meant": 3, "done": 0})
	if n := text(t, other.db,
		"SELECT count(*) || min(author) FROM skald_audit WHERE action = 'import'"); n != "3ann" {
		t.Errorf("the audit has %s imports", n)
	}
	// One is redriven and finished, one dropped: neither comes again.
	other.run()
	wants(t, other.told(0, "dead", "redrive", "m-01", "--reason", "mended", "--canary"),
		map[string]any{"succeeded": 1})
	wants(t, other.told(0, "dead", "drop", "m-03", "--reason", "not ours"), map[string]any{"done": 1})
	p := start(t, other.env, "dead", "import", "-", "--reason", "moved", "--yes")
	p.expect(4, "no dead letter in the file") // standard input is empty
	p = start(t, other.env, "dead", "import", file, "--reason", "again", "--yes")
	p.expect(0)
	if said := p.out.String(); strings.Count(said, "finished") != 2 ||
		strings.Count(said, "kept already") != 1 || !strings.Contains(said, "0 of 3") {
		t.Errorf("said %s", said)
	}
	if got := export(other); bytes.Count(got, []byte("\n")) != 1 {
		t.Errorf("left are %s", got)
	}
	must(t, os.WriteFile(file, []byte(string(export(m))+"{\"format\":1}\n"), 0o600))
	third := newMorgue(t)
	start(t, third.env, "dead", "import", file, "--reason", "moved", "--yes").expect(2, "line 4 of the file")
	late := regexp.MustCompile(`"dead_at":"[^"]*"`).ReplaceAllLiteral(export(m),
		[]byte(`"dead_at":"9999-12-31T23:59:59-23:00"`))
	must(t, os.WriteFile(file, late, 0o600))
	start(t, third.env, "dead", "import", file, "--reason", "moved", "--yes").expect(2,
		"the year of its dead_at is")
	start(t, third.env, "dead", "import", file+"x", "--reason", "moved", "--yes").expect(4,
		"there is no file")
	if n := text(t, third.db, "SELECT count(*) FROM skald_parked"); n != "0" {
		t.Errorf("%s are kept of a file that cannot be read", n)
	}
}

// What is older than marks are kept, and has none, may have been taken: it is imported only where that is
// asked for.
func TestImportOfWhatIsTooOld(t *testing.T) {
	t.Parallel()
	m := newMorgue(t)
	m.bury(1, "", func(p *store.Parked) { p.ID = "01900000-0000-7000-8000-000000000001" })
	p := start(t, m.env, "dead", "export")
	p.expect(0)
	file := filepath.Join(t.TempDir(), "dead.jsonl")
	must(t, os.WriteFile(file, []byte(p.out.String()), 0o600))
	other := newMorgue(t)
	_, err := other.db.Exec("INSERT INTO skald_floor (consumer, at) VALUES ('stock', unixepoch() * 1000)")
	must(t, err)
	wants(t, other.told(0, "dead", "import", file, "--reason", "moved"), map[string]any{"done": 0})
	wants(t, other.told(0, "dead", "import", file, "--reason", "looked at it", "--too-old"),
		map[string]any{"done": 1})
}

// Another payload is a new message at the place of the old one, for the consumer that failed; the old one is
// finished with that.
func TestEditADeadLetter(t *testing.T) {
	t.Parallel()
	m := newMorgue(t)
	m.bury(1, "k",
		func(p *store.Parked) { p.Message.Headers = []skald.Header{{Name: "h", Value: []byte("1")}} })
	m.bury(2, "k", nil)
	file := filepath.Join(t.TempDir(), "data.json")
	must(t, os.WriteFile(file, []byte(`"mended"`), 0o600))
	args := []string{"dead", "edit", "m-01", "--data", "@" + file}
	start(t, m.env, args...).expect(2, "--reason")
	start(t, m.env, "dead", "edit", "m-01", "--reason", "x").expect(2, "--data")
	start(t, m.env, "dead", "edit", "--data", "@"+file, "--reason", "x").expect(2, "the ID")
	wants(t, m.told(0, append(args, "--dry-run")...),
		map[string]any{"instead_of": "m-01", "dry_run": true, "bytes": 8})
	got := m.told(0, append(args, "--reason", "a comma", "--by", "ann")...)
	start(t, m.env, append(args, "--reason", "a comma", "--yes")...).expect(4, "no message is selected")
	id := store.Identity{Source: "/orders", ID: fmt.Sprint(got["id"])}
	kept, err := store.ListParked(t.Context(), m.s, store.ParkedQuery{Consumer: "stock", Limit: 10})
	must(t, err)
	if len(kept) != 2 || kept[0].Identity != id || kept[0].Dead != nil ||
		kept[0].Message.CausationID != "m-01" || string(kept[0].Message.Data) != `"mended"` ||
		string(kept[0].Message.Key) != "k" || len(kept[0].Message.Headers) != 1 || !kept[1].Waiting {
		t.Fatalf("kept %+v", kept)
	}
	m.run()
	wants(t, m.told(0, "dead", "redrive", "m-02", "--canary", "--reason", "the first is mended"),
		map[string]any{"succeeded": 1})
	if ran := fmt.Sprint(m.ran()); ran != "[mended m-02]" {
		t.Errorf("the handler was given %s", ran)
	}
	seen, err := m.s.Seen(t.Context(), "stock", []store.Identity{{Source: "/orders", ID: "m-01"}, id})
	must(t, err)
	if seen[0].Outcome != store.Rejected || seen[0].Reason != "edited: a comma; instead of it: "+id.ID ||
		seen[1].Outcome != store.Done {
		t.Errorf("known are %+v", seen)
	}
	if said := text(t, m.db,
		"SELECT group_concat(action || id) FROM skald_audit WHERE author = 'ann'"); said != "editm-01" {
		t.Errorf("the audit has %s", said)
	}
}
