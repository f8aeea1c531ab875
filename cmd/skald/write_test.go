package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/skald-go/skald/store"
)

// A message by hand is written once, caused by the dead letter that it answers, and it is noted who wrote it
// and why.
func TestOutboxWrite(t *testing.T) {
	t.Parallel()
	m := newMorgue(t)
	m.bury(1, "k", func(p *store.Parked) { p.Message.CorrelationID = "whole" })
	write := func(code int, args ...string) map[string]any {
		t.Helper()
		return m.said(code, append([]string{"outbox", "write", "--topic", "payments", "--type", "refund"},
			args...)...)
	}
	start(t, m.env, "outbox", "write", "--topic", "payments", "--type", "refund", "--data",
		"{}").expect(2, "--reason")
	start(t, m.env, "outbox", "write", "--topic", "payments", "--data", "{}", "--reason",
		"x").expect(2, "--type")
	start(t, m.env, "outbox", "write", "--topic", "payments", "--type", "refund", "--data", "{", "--reason",
		"x").expect(2, "no JSON")
	start(t, m.env, "outbox", "write", "--topic", "pay ments", "--type", "refund", "--data", "{}", "--reason",
		"x").expect(2, "a topic is")
	wants(t, write(0, "--data", "{}", "--dry-run"), map[string]any{"dry_run": true, "topic": "payments"})
	if n := text(t, m.db, "SELECT count(*) FROM skald_outbox"); n != "0" {
		t.Fatalf("%s rows behind a dry run", n)
	}
	got := write(0, "--key", "7", "--data", `{"cents":700}`, "--caused-by", "m-01", "--reason",
		"the charge was taken twice", "--by", "ann")
	wants(t, got, map[string]any{"causation_id": "m-01", "correlation_id": "whole", "bytes": 13})
	if row := text(t, m.db,
		"SELECT topic || key || type || data || id || causation_id || correlation_id FROM skald_outbox"); row != `payments7refund{"cents":700}`+fmt.Sprint(got["id"])+"m-01whole" {
		t.Errorf("written is %s", row)
	}
	if said := text(t, m.db,
		"SELECT author || reason || action || consumer || id FROM skald_audit"); said != "annthe charge was taken twicewrite refund "+fmt.Sprint(got["id"])+" to paymentsstockm-01" {
		t.Errorf("the audit has %s", said)
	}
	file := filepath.Join(t.TempDir(), "data")
	must(t, os.WriteFile(file, []byte("text"), 0o600))
	wants(t, write(0, "--data", "@"+file, "--content-type", "text/plain", "--id", "mine", "--caused-by",
		"gone", "--reason", "x"), map[string]any{"id": "mine", "causation_id": "gone"})
	if row := text(t, m.db,
		"SELECT coalesce(key, 'none') || coalesce(data, cast(data_bytes AS TEXT)) FROM skald_outbox WHERE id = 'mine'"); row != "nonetext" {
		t.Errorf("written is %s", row)
	}
	wants(t, write(0, "--data", "@"+file, "--content-type", "text/plain", "--id", "mine", "--reason", "x"),
		map[string]any{"id": "mine", "repeated": true})
	start(t, m.env, "outbox", "write", "--topic", "payments", "--type", "refund", "--data", "{}", "--id", "mine",
		"--reason", "x").expect(2, "another message was written under this id")
	if n := text(t, m.db, "SELECT count(*) FROM skald_outbox WHERE id = 'mine'"); n != "1" {
		t.Errorf("%s rows have one id", n)
	}
}

// On PostgreSQL the same, over the way from the export to a watched redrive.
func TestDeadLettersOnPostgres(t *testing.T) {
	t.Parallel()
	m := newMorgue(t)
	m.bury(1, "k", nil)
	m.bury(2, "k", func(p *store.Parked) { p.Message.Data = []byte{0, 0xff} })
	p := start(t, m.env, "dead", "export")
	p.expect(0)
	file := filepath.Join(t.TempDir(), "dead.jsonl")
	must(t, os.WriteFile(file, []byte(p.out.String()), 0o600))

	at, conn := postgres(t)
	m.env = []string{"SKALD_STORE=" + at}
	start(t, m.env, "migrate").expect(0)
	wants(t, m.told(0, "dead", "import", file, "--reason", "moved"), map[string]any{"done": 2})
	wants(t, m.told(0, "dead", "import", file, "--reason", "moved"), map[string]any{"done": 0})
	back := start(t, m.env, "dead", "export")
	if back.expect(0); len(back.out.String()) == 0 {
		t.Error("nothing is exported")
	}
	must(t, os.WriteFile(file, []byte(`"new"`), 0o600))
	wants(t, m.told(0, "dead", "edit", "m-02", "--data", "@"+file, "--reason", "bytes"),
		map[string]any{"instead_of": "m-02"})
	start(t, m.env, "dead", "redrive", "--all", "--canary", "--wait", "100ms", "--reason", "mended",
		"--yes").expect(1, "was not handled")
	// Its consumer takes it, and the same command goes on.
	if _, err := conn.Exec(t.Context(),
		"DELETE FROM skald_parked WHERE id = 'm-01'; INSERT INTO skald_mark (consumer, source, id, outcome) VALUES ('stock', '/orders', 'm-01', 1)"); err != nil {
		t.Fatal(err)
	}
	wants(t, m.told(0, "dead", "redrive", "--all", "--canary", "--reason", "mended"),
		map[string]any{"done": 1, "succeeded": 1, "meant": 1})
	const one = "01890a5d-ac96-774b-bcce-b302099a8057"
	wants(t, m.said(0, "outbox", "write", "--topic", "payments", "--type", "refund", "--data", "{}",
		"--reason", "x", "--id", one), map[string]any{"topic": "payments", "repeated": false})
	wants(t, m.said(0, "outbox", "write", "--topic", "payments", "--type", "refund", "--data", "{}",
		"--reason", "x", "--id", one), map[string]any{"repeated": true})
	start(t, m.env, "outbox", "write", "--topic", "payments", "--type", "refund", "--data", "[]",
		"--reason", "x", "--id", one).expect(2, "another message")
	var said string
	if err := conn.QueryRow(t.Context(),
		"SELECT string_agg(action, ',' ORDER BY seq) FROM skald_audit WHERE action NOT LIKE 'write%'").Scan(
		&said); err != nil ||
		said != "import,import,edit,redrive,redrive ended: 1 redriven, 1 succeeded, 0 rejected, 0 failed again, 0 not handled yet" {
		t.Errorf("the audit has %s, %v", said, err)
	}
}
