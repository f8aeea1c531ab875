package pgstore

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestMigrateBehindAnother checks that a migration that waited for another one finds the new schema,
// although it looked before.
func TestMigrateBehindAnother(t *testing.T) {
	t.Parallel()
	b := bare(t)
	ctx := context.Background()
	first, err := b.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Rollback(ctx) }()
	pg := newCore(nil, &Options{Schema: b.schema}).pg
	if _, err := first.Exec(ctx, pg.SQL["LockMigrations"], b.schema); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := Migrate(ctx, b.pool, &MigrateOptions{Schema: b.schema})
		done <- err
	}()
	waits := `SELECT count(*) FROM pg_locks AS w JOIN pg_locks AS h USING (locktype, classid, objid, objsubid)
		WHERE w.locktype = 'advisory' AND NOT w.granted AND h.granted AND h.pid = $1`
	for end := time.Now().Add(5 * time.Minute); one[int](t, b, waits,
		int64(first.Conn().PgConn().PID())) == 0; {
		if time.Now().After(end) {
			t.Fatal("it does not wait")
		}
	}
	if _, err := first.Exec(ctx, "CREATE SCHEMA "+strings.TrimSuffix(pg.Prefix, ".")); err != nil {
		t.Fatal(err)
	}
	if err := first.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
