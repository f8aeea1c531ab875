package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/natsbroker"
)

// A table that is there is carried by a map that the command writes itself; nothing of Skald's is in the
// database.
func TestRelayTable(t *testing.T) {
	t.Parallel()
	at, conn := postgres(t)
	do(t, conn,
		`CREATE TABLE outbox (id UUID PRIMARY KEY DEFAULT gen_random_uuid(), topic TEXT NOT NULL, key TEXT, payload JSONB NOT NULL,
		created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), published_at TIMESTAMPTZ)`)
	env := []string{"SKALD_STORE=" + at}
	shown := start(t, env, "adopt", "outbox", "--print")
	shown.expect(0, "no column is GENERATED")
	path := filepath.Join(t.TempDir(), "outbox.json")
	must(t, os.WriteFile(path, []byte(shown.out.String()), 0o600))

	s := natsServer(t, t.TempDir(), 0)
	bus, err := natsbroker.New(s.Addr().String(), nil)
	must(t, err)
	t.Cleanup(func() { _ = bus.Close() })
	must(t, bus.MakeTopics(t.Context(), 1, "orders"))
	sub, err := bus.Subscribe(t.Context(), broker.Group{Name: "reader", Topics: []string{"orders"}})
	must(t, err)

	do(t, conn,
		`INSERT INTO outbox (topic, key, payload) SELECT 'orders', i % 3, jsonb_build_object('n', i) FROM generate_series(1, 50) AS i`)
	for round := range 2 { // the second begins where a kill left the first
		p := start(t, env, "relay", "--table", path, "--broker", "nats://"+s.Addr().String())
		p.until("rows",
			func() bool { return count(conn, "SELECT count(*) FROM outbox WHERE published_at IS NULL") == 0 })
		if round == 0 {
			must(t, p.cmd.Process.Kill())
			p.wait()
			do(t, conn, `INSERT INTO outbox (topic, key, payload) VALUES ('orders', '1', '{"n": 51}')`)
			continue
		}
		must(t, p.cmd.Process.Signal(syscall.SIGTERM))
		p.expect(0, "publishing a table")
	}
	ids, last := map[string]bool{}, skald.Message{}
	for len(ids) < 51 {
		batch, err := sub.Receive(t.Context(), 100)
		must(t, err)
		for _, d := range batch.Deliveries {
			must(t, d.Fault)
			ids[d.ID], last = true, d.Message
		}
		if len(batch.Deliveries) == 0 {
			<-sub.Ready()
		}
	}
	if string(last.Data) != `{"n": 51}` || string(last.Key) != "1" || last.Source != "/outbox" ||
		last.Type != "orders" {
		t.Errorf("the last is %+v", last)
	}
}

// What is wrong with the map, its table or the flags is said, each with its exit code.
func TestRelayTableBadInput(t *testing.T) {
	t.Parallel()
	at, conn := postgres(t)
	path := filepath.Join(t.TempDir(), "outbox.json")
	good := `{"table": "outbox", "id": "${id}", "topic": "orders", "payload": "payload", "order": ["id"], "done": {"delete": true}}`
	relay := []string{"relay", "--broker", "nats://127.0.0.1:1", "--table", path}
	for _, c := range []struct {
		text, store string
		args        []string
		code        int
		says        string
	}{
		{"", at, []string{"relay", "--broker", "nats://127.0.0.1:1", "--table", path + ".none"}, 4,
			"skald adopt outbox --print"},
		{`{`, at, relay, 2, "unexpected"},
		{`{"table": "outbox"}`, at, relay, 2, "the id of messages is missing"},
		{good, at, relay, 5, "it does not exist"},
		{good, at, append(relay, "--schema", "a"), 2, "not for --table"},
		{good, at, append(relay, "--table", path), 2, "given twice"},
		{good, at, append(relay, "--keep-sagas", "1h"), 2, "--keep-sagas is for Skald's own outbox"},
		{good, "sqlite:" + path, relay, 2, "supported in PostgreSQL only"},
		{good, at, []string{"relay", "--table", path}, 2, "give --broker"},
		{good, at, []string{"adopt", "outbox"}, 2, "give --print"},
		{good, at, []string{"adopt"}, 2, "skald adopt [command]"},
		{good, at, []string{"adopt", "outbox", "--print"}, 5, "no table has such a name"},
	} {
		must(t, os.WriteFile(path, []byte(c.text), 0o600))
		p := start(t, []string{"SKALD_STORE=" + c.store}, c.args...)
		if code := p.wait(); code != c.code || !strings.Contains(p.errs.String(), c.says) {
			t.Errorf("%q with %s: exit %d: %s", c.args, c.text, code, p.errs.String())
		}
	}
	do(t, conn, "CREATE TABLE outbox (id int)")
	start(t, []string{"SKALD_STORE=" + at}, relay...).expect(5, `has no column "payload"`)
}
