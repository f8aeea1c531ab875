package main_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store/sqlitestore"
)

// A copy of a database: the relay ends and names the command, which asks, settles once, and then has nothing
// to do.
func TestOutboxRecover(t *testing.T) {
	at, conn := postgres(t)
	ctx := context.Background()
	start(t, nil, "migrate", "--store", at).expect(0)
	start(t, nil, "outbox", "recover", "--store", at, "--yes", "--reason", "a copy").expect(5,
		"nothing to recover")
	for _, sql := range []string{
		`INSERT INTO skald_outbox (topic, type) VALUES ('orders', 'a')`,
		`INSERT INTO skald_snapshot (token, snapshot, seq, own_txid, at) SELECT 'x', pg_current_snapshot(), 1, pg_current_xact_id(), now()`,
		`UPDATE skald_shard SET base = (SELECT id || '-' || token FROM skald_snapshot)`,
		`INSERT INTO skald_outbox (topic, type) VALUES ('orders', 'b')`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	name := conn.Config().Database
	_ = conn.Close(ctx)
	copied := strings.Replace(at, name, name+"_copy", 1)
	admin, err := pgx.Connect(ctx, strings.Replace(at, name, "postgres", 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(ctx, "DROP DATABASE IF EXISTS "+name+"_copy WITH (FORCE)"); err != nil {
			t.Error(err)
		}
		_ = admin.Close(ctx)
	})
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name+"_copy TEMPLATE "+name); err != nil {
		t.Fatal(err)
	}
	start(t, nil, "relay", "--store", copied, "--broker", "kafka://127.0.0.1:1").expect(5, "went back in time or is another one",
		"shard 0 belongs to database", "skald outbox recover")
	start(t, nil, "outbox", "recover", "--store", copied, "--yes").expect(2, "--reason")
	dry := start(t, nil, "outbox", "recover", "--store", copied, "--dry-run")
	if dry.expect(0); !strings.Contains(dry.out.String(), "shard 0 belongs to database") {
		t.Errorf("a dry run says %s", &dry.out)
	}
	start(t, nil, "outbox", "recover", "--store", copied, "--reason", "a copy").expect(2,
		"shard 0 belongs to database", "--yes")
	p := start(t, nil, "outbox", "recover", "--store", copied, "--yes", "--json", "--reason", "a copy",
		"--by", "ada")
	p.expect(0)
	var got struct {
		Moved                              string
		Covered, Again, Renumbered, Shards int
	}
	if err := json.Unmarshal([]byte(p.out.String()), &got); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got.Moved, "shard 0") || got.Covered != 1 || got.Again != 1 || got.Renumbered != 0 ||
		got.Shards != 16 {
		t.Errorf("the recover says %s", &p.out)
	}
	other, err := pgx.Connect(ctx, copied)
	must(t, err)
	defer func() { _ = other.Close(ctx) }()
	var noted string
	if err := other.QueryRow(ctx,
		"SELECT string_agg(author || ' ' || action || ' ' || reason, ', ') FROM skald_audit").Scan(
		&noted); err != nil || noted != "ada recover a copy" {
		t.Errorf("noted is %q, %v", noted, err)
	}
	start(t, nil, "outbox", "recover", "--store", copied, "--dry-run").expect(5, "nothing to recover")
	start(t, nil, "outbox", "recover", "--store", copied, "--yes", "--reason", "again").expect(5,
		"nothing to recover")
}

func TestOutboxRecoverOfFile(t *testing.T) {
	t.Parallel()
	at := "sqlite:" + filepath.Join(t.TempDir(), "o.db")
	start(t, nil, "migrate", "--store", at).expect(0)
	db, err := sqlitestore.Open(strings.TrimPrefix(at, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec("UPDATE skald_shard SET base = '7' WHERE id = 3"); err != nil {
		t.Fatal(err)
	}
	p := start(t, nil, "outbox", "recover", "--store", at, "--yes", "--reason", "a copy")
	p.expect(0)
	if !strings.Contains(p.out.String(), "shard 3 is at row 7") {
		t.Errorf("in words:\n%s", &p.out)
	}
	start(t, nil, "outbox", "recover", "--store", at, "--yes", "--reason", "a copy").expect(5,
		"nothing to recover")
}
