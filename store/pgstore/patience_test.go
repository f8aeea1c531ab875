package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skald-go/skald/store"
)

// refusedLock is what PostgreSQL says to who waited for a lock in vain.
func refusedLock() error { return fmt.Errorf("try: %w", &pgconn.PgError{Code: "55P03"}) }

// The waits for a lock are short first, and long enough at last for those that always overlap.
func TestLockWaits(t *testing.T) {
	var waits []time.Duration
	err := again(t.Context(), "a table", 0, func(wait time.Duration) error {
		waits = append(waits, wait)
		return refusedLock()
	})
	var busy *BusyError
	if !errors.As(err, &busy) || busy.Err != nil ||
		!strings.Contains(err.Error(), "a table was held by open transactions") {
		t.Errorf("%v", err)
	}
	if len(waits) != 60 {
		t.Fatalf("%d tries", len(waits))
	}
	sum := time.Duration(len(waits)) * lockPause
	for n, wait := range waits {
		if want := []time.Duration{200, 400, 800, 1600}[n/15] * time.Millisecond; wait != want {
			t.Errorf("try %d waits for %v, want %v", n, wait, want)
		}
		sum += wait
	}
	if sum != 105*time.Second { // as the doc of Migrate says
		t.Errorf("all in all %v", sum)
	}
}

// A context that ends before all tries were made says what they waited for, if that is known; whatever else
// fails is said as it is.
func TestLockWaitThatIsEnded(t *testing.T) {
	other := errors.New("other")
	for name, c := range map[string]struct {
		first, second error // nil: of the context, which has ended by then
		want          error
		busy          bool
	}{
		"in the pause":            {refusedLock(), refusedLock(), context.Canceled, true},
		"in a later try":          {refusedLock(), nil, context.Canceled, true},
		"in a later try, by code": {refusedLock(), &pgconn.PgError{Code: "57014"}, context.Canceled, true},
		"in the first try":        {nil, nil, context.Canceled, false},
		"beside another error":    {refusedLock(), other, other, false},
	} {
		ctx, stop := context.WithCancel(t.Context())
		tries := 0
		pause := time.Duration(0)
		if name == "in the pause" {
			pause = time.Hour
		}
		err := again(ctx, "a table", pause, func(time.Duration) error {
			tries++
			err := c.first
			if tries == 2 {
				err = c.second
			}
			if err == nil || tries == 2 || pause > 0 {
				stop()
			}
			if err == nil {
				err = fmt.Errorf("timeout: %w", ctx.Err())
			}
			return err
		})
		stop()
		var busy *BusyError
		if errors.As(err, &busy) != c.busy || !errors.Is(err, c.want) || c.busy &&
			!strings.Contains(err.Error(), "a table, which open transactions held") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// watched tells for how long each try is about to wait for a lock: what PostgreSQL says, in the transaction
// of the try.
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

// at is a transaction at work on a table that a migration changes.
func (b *bed) at(t *testing.T, table string) pgx.Tx {
	t.Helper()
	tx, err := b.pool.Begin(context.Background())
	if err == nil {
		// whatever failed: the schema is to be dropped
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		_, err = tx.Exec(context.Background(), b.q(`LOCK TABLE {`+table+`} IN ROW EXCLUSIVE MODE`))
	}
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// Transactions that overlap, each longer than the first wait: the next begins before the one ends, so that
// the table is never free. Who waits for longer than one of them is open gets through. The clock decides
// nothing here: a transaction is open for as long as a try waits for 200 ms, and ends while one waits for
// longer.
func TestMigrateBesideOverlappingTransactions(t *testing.T) {
	b := bare(t)
	b.migrateTo(t, 1)
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	m, err := newMigrator(b.next(t))
	if err != nil {
		t.Fatal(err)
	}
	m.pause = 0
	asked, answer, done := make(chan string, 1), make(chan bool, 1), make(chan error, 1)
	go func() {
		_, err := m.apply(ctx, watched{b.pool, func(wait string) {
			asked <- wait
			select {
			case <-answer:
			case <-ctx.Done():
			}
		}})
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
			if err != nil || handed != patientTries || open != nil {
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
				// a slow machine may miss it: then the next try has it
			}
			end(open)
			open = nil
		}
	}
}

// Who ends a migration that waits is told for whom it waited, and nothing is changed.
func TestMigrateThatIsEndedSaysWhatItWaitedFor(t *testing.T) {
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
