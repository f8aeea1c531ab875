package pgstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/admin"
)

// watched reports the lock timeout of each try, as PostgreSQL shows it in the transaction of the try.
type watched struct {
	Database
	saw func(wait string)
}

type watchedTx struct {
	pgx.Tx
	saw func(wait string)
}

func (w watched) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := w.Database.Begin(ctx)
	return watchedTx{tx, w.saw}, err
}

func (w watchedTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	tag, err := w.Tx.Exec(ctx, sql, args...)
	if err != nil || !strings.Contains(sql, "'lock_timeout'") {
		return tag, err
	}
	var wait string
	if err = w.Tx.QueryRow(ctx, `SELECT current_setting('lock_timeout')`).Scan(&wait); err == nil {
		w.saw(wait)
	}
	return tag, err
}

// at returns an open transaction on a table that a migration changes.
func (b *bed) at(t *testing.T, table string) pgx.Tx {
	t.Helper()
	tx, err := b.pool.Begin(context.Background())
	if err == nil {
		// the schema must be dropped after any failure
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		_, err = tx.Exec(context.Background(), b.q(`LOCK TABLE {`+table+`} IN ROW EXCLUSIVE MODE`))
	}
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// TestMigrateBesideOverlappingTransactions checks transactions that overlap and last longer than the first
// wait, so that the table is never free. A migration that waits longer than one of them gets the lock. The
// test does not depend on the clock: a transaction is open while a try waits 200 ms, and ends while one
// waits longer.
func TestMigrateBesideOverlappingTransactions(t *testing.T) {
	t.Parallel()
	b := bare(t)
	b.migrateTo(t, 1)
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	o := b.next(t).tables()
	o.Pause = 0
	asked, answer, done := make(chan string, 1), make(chan bool, 1), make(chan error, 1)
	go func() {
		_, err := admin.Migrate(ctx, watched{b.pool, func(wait string) {
			asked <- wait
			select {
			case <-answer:
			case <-ctx.Done():
			}
		}}, o)
		done <- err
	}()
	const waits = `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = '{skald_relay}'::regclass)`
	end := func(tx pgx.Tx) {
		if err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
	open, handed := b.at(t, "skald_relay"), 0
	for {
		select {
		case err := <-done:
			if err != nil || handed != 15 || open != nil {
				t.Fatalf("behind %d transactions, each longer than the first wait: %v", handed, err)
			}
			if err := b.store(t).Check(ctx, store.Relay); err != nil {
				t.Error(err)
			}
			return
		case wait := <-asked:
			if open != nil && wait == "200ms" {
				next := b.at(t, "skald_relay")
				end(open)
				open, handed = next, handed+1
			}
			answer <- true
			if open == nil || wait == "200ms" {
				continue
			}
			for len(asked) == 0 && len(done) == 0 && !one[bool](t, b, waits) {
				// a slow machine may miss it: then the next try gets it
			}
			end(open)
			open = nil
		}
	}
}

// TestMigrateThatIsEndedSaysWhatItWaitedFor checks that a cancelled migration returns the table that it
// waited for, and changes nothing.
func TestMigrateThatIsEndedSaysWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	b := bare(t)
	b.migrateTo(t, 1)
	b.at(t, "skald_relay")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	tries := 0
	_, err := Migrate(ctx, watched{b.pool, func(string) {
		if tries++; tries == 2 {
			stop()
		}
	}}, b.next(t))
	var busy *BusyError
	if !errors.As(err, &busy) || !errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), "open transactions") || tries != 2 {
		t.Errorf("in try %d: %v", tries, err)
	}
	if n := one[int](t, b, `SELECT count(*) FROM {skald_migration}`); n != 1 {
		t.Errorf("%d migrations are applied", n)
	}
}
