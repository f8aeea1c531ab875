package main_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skald-go/skald/store/sqlitestore"
)

// wantStatus asks skald outbox status for what it says of a database with no relay.
func wantStatus(t *testing.T, pending int, env []string, args ...string) {
	t.Helper()
	p := start(t, env, append([]string{"outbox", "status", "--json"}, args...)...)
	p.expect(0)
	var got struct {
		Pending       int     `json:"pending"`
		OldestSeconds float64 `json:"oldest_seconds"`
		Deferred      *int    `json:"deferred"`
		Shards        []struct {
			Shard, Pending int
			Owner          *string
			Epoch          *int64
		} `json:"shards"`
	}
	if err := json.Unmarshal([]byte(p.out.String()), &got); err != nil {
		t.Fatalf("%v in %s", err, &p.out)
	}
	sum := 0
	for i, l := range got.Shards {
		if sum += l.Pending; l.Shard != i || l.Owner != nil || l.Epoch == nil {
			t.Errorf("shard %d: %s", i, &p.out)
		}
	}
	if got.Pending != pending || sum != pending || got.Deferred == nil || len(got.Shards) != 16 ||
		(got.OldestSeconds > 0) != (pending > 0) {
		t.Errorf("%d are pending: %s", pending, &p.out)
	}
	p = start(t, env, append([]string{"outbox", "status"}, args...)...)
	p.expect(0)
	if text := p.out.String(); !strings.Contains(text,
		fmt.Sprintf("pending   %d\n", pending)) || strings.Count(text, "–") != 16 {
		t.Errorf("in words:\n%s", text)
	}
}

func TestOutboxStatus(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.db")
	start(t, nil, "outbox", "status", "--store", "sqlite:"+path).expect(4, path, "skald migrate")
	start(t, nil, "outbox").expect(2, "Available Commands", "status")
	start(t, nil, "outbox", "status").expect(2, "--store")
	db, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec("CREATE TABLE mine (x)"); err != nil {
		t.Fatal(err)
	}
	start(t, nil, "outbox", "status", "--store", "sqlite:"+path).expect(5, "no Skald tables", "skald migrate")
	start(t, nil, "migrate", "--store", "sqlite:"+path).expect(0)
	wantStatus(t, 0, nil, "--store", "sqlite:"+path)
	for n := range 3 {
		if _, err := db.Exec("INSERT INTO skald_outbox (topic, type, bucket) VALUES ('t', 't', ?)",
			n); err != nil {
			t.Fatal(err)
		}
	}
	wantStatus(t, 3, []string{"SKALD_STORE=sqlite:" + path})
}

func TestOutboxStatusPostgres(t *testing.T) {
	t.Parallel()
	at, conn := postgres(t)
	env := []string{"SKALD_STORE=" + at}
	start(t, env, "outbox", "status", "--schema", "a").expect(4, "no schema a", "skald migrate")
	if _, err := conn.Exec(t.Context(), "CREATE SCHEMA a"); err != nil {
		t.Fatal(err)
	}
	start(t, env, "outbox", "status", "--schema", "a").expect(5, "no Skald tables", "skald migrate")
	start(t, env, "migrate", "--schema", "a").expect(0)
	wantStatus(t, 0, env, "--schema", "a")
	if _, err := conn.Exec(t.Context(),
		"INSERT INTO a.skald_outbox (topic, key, type) SELECT 't', n, 't' FROM generate_series(1, 5) AS n"); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, 5, env, "--schema", "a")
}
