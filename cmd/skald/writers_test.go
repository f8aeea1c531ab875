package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store/pgstore"
)

// What every writer says: a key and a JSON text with all that is escaped somewhere, on the way or at its end.
const (
	foreignKey = `größe "42" \ '%s' $1 €😀`
	foreignDoc = `{"quote": "\" ' '' \\ \/ \\\\", "control": "\b\f\n\r\t\u0001\u001f", "wide": "\u20ac \ud83d\ude00 é 😀", "marks": "$1 %s :key ? {} \\x41 E'", "n": 12345678901234567890.5, "none": null, "empty": ""}`
)

// Whoever writes a row with a plain INSERT has written a message: a real relay and a real inbox carry it,
// byte for byte.
func TestForeignWriters(t *testing.T) {
	t.Parallel()
	trigger := func(t *testing.T, at string, conn *pgx.Conn) {
		text, err := os.ReadFile("testdata/trigger.sql")
		if err != nil {
			t.Fatal(err)
		}
		do(t, conn, string(text))
		if _, err := conn.Exec(t.Context(), "INSERT INTO purchase VALUES ($1, $2, $3)", foreignKey,
			foreignDoc, allBytes()); err != nil {
			t.Fatal(err)
		}
		do(t, conn, "DELETE FROM purchase")
	}
	program := func(env string, command ...string) func(*testing.T, string, *pgx.Conn) {
		return func(t *testing.T, at string, _ *pgx.Conn) {
			cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
			cmd.Env = append(os.Environ(), "KEY="+foreignKey, "DOC="+foreignDoc,
				"URL="+strings.Replace(at, "postgres://", env, 1), "LC_ALL=C.UTF-8")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	}
	for name, write := range map[string]func(*testing.T, string, *pgx.Conn){
		"trigger": trigger,
		"psql": func(t *testing.T, at string, conn *pgx.Conn) {
			program("postgres://", need.Psql(t), "-X", "-v", "ON_ERROR_STOP=1", "-v", "key="+foreignKey,
				"-v", "doc="+foreignDoc, "-f", "testdata/writer.sql", at)(t, at, conn)
		},
		"python": func(t *testing.T, at string, conn *pgx.Conn) {
			program("postgresql://", need.Python(t), "testdata/writer.py")(t, at, conn)
		},
		"typescript": func(t *testing.T, at string, _ *pgx.Conn) {
			dir := need.Node(t)
			text, err := os.Open("testdata/writer.ts")
			must(t, err)
			defer text.Close()
			cmd := exec.CommandContext(t.Context(), "node", "--input-type=module", "-")
			cmd.Dir, cmd.Stdin = dir, text // it has no types to strip: Node runs it as it is
			cmd.Env = append(os.Environ(), "KEY="+foreignKey, "DOC="+foreignDoc, "URL="+at)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		},
		"java": func(t *testing.T, at string, conn *pgx.Conn) {
			at = strings.Replace(at, "postgres@", "", 1) + "&user=postgres"
			program("jdbc:postgresql://", "java", "-Dfile.encoding=UTF-8", "-Dsun.jnu.encoding=UTF-8", "-cp",
				need.JDBC(t), "testdata/Writer.java")(t, at, conn)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, conn := postgres(t)
			start(t, []string{"SKALD_STORE=" + at}, "migrate", "--source", "/foreign").expect(0)
			write(t, at, conn)
			compareForeign(t, delivered(t, at))
		})
	}
}

func allBytes() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

// delivered is what an inbox was given of topic orders, by type.
func delivered(t *testing.T, at string) map[string]skald.Message {
	t.Helper()
	got := map[string]skald.Message{}
	all := carried(t, at, "orders", "json nokey binary tombstone", 4)
	for _, m := range all {
		got[m.Type] = m
	}
	if len(all) != len(got) {
		t.Error("a message was handled twice")
	}
	return got
}

// carried is what an inbox was given of a topic and its types, by a relay over a broker of its own, once
// there are n.
func carried(t *testing.T, at, topic, types string, n int) (got []skald.Message) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db, bus := pgstore.New(pool, nil), membroker.New(nil)
	if err := bus.MakeTopics(t.Context(), 3, "orders", "shadow.orders"); err != nil {
		t.Fatal(err)
	}
	in := inbox.New(db, bus, "reader of "+topic, nil)
	var mu sync.Mutex
	for typ := range strings.FieldsSeq(types) {
		in.Handle(topic, typ, func(_ context.Context, _ pgx.Tx, m skald.Message) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, m)
			return nil
		})
	}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- skald.Run(ctx, relay.New(db, bus, nil), in) }()
	for marks, pending := 0, 1; marks < n || pending > 0; time.Sleep(5 * time.Millisecond) {
		if err := pool.QueryRow(ctx,
			"SELECT (SELECT count(*) FROM skald_mark WHERE consumer = $1), (SELECT pending FROM skald_backlog)", "reader of "+topic).Scan(&marks, &pending); err != nil {
			t.Fatalf("%d of %d came: %v", marks, n, err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return got
}

func compareForeign(t *testing.T, got map[string]skald.Message) {
	t.Helper()
	for typ, m := range got {
		if at, ok := uuid7.Time(m.ID); !ok || time.Since(at).Abs() > time.Hour || m.Source != "/foreign" ||
			m.Time.IsZero() || m.Type != typ {
			t.Errorf("%s: %+v", typ, m)
		}
	}
	var want, have any
	if err := json.Unmarshal([]byte(foreignDoc), &want); err != nil {
		t.Fatal(err)
	}
	for _, typ := range []string{"json", "nokey"} {
		if err := json.Unmarshal(got[typ].Data, &have); err != nil || !reflect.DeepEqual(have, want) {
			t.Errorf("%s: %v: %s", typ, err, got[typ].Data)
		}
	}
	if string(got["json"].Key) != foreignKey || got["nokey"].Key != nil ||
		string(got["tombstone"].Key) != foreignKey || got["tombstone"].Data != nil {
		t.Errorf("keys: %q, %q, %q; the tombstone has %q", got["json"].Key, got["nokey"].Key,
			got["tombstone"].Key, got["tombstone"].Data)
	}
	raw := got["binary"]
	if string(raw.Key) != "\xff\x00k" || !bytes.Equal(raw.Data, allBytes()) ||
		raw.ContentType != "application/octet-stream" ||
		!reflect.DeepEqual(raw.Headers, []skald.Header{{Name: "a", Value: []byte{0}}}) {
		t.Errorf("binary: %+v", raw)
	}
}
