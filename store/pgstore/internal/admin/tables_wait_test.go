package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// refusedLock returns PostgreSQL's error for a lock timeout.
func refusedLock() error { return fmt.Errorf("try: %w", &pgconn.PgError{Code: "55P03"}) }

// TestLockWaits checks that the waits are short at first, and later long enough for transactions that
// always overlap.
func TestLockWaits(t *testing.T) {
	var waits []time.Duration
	err := retryLocked(t.Context(), "a table", 0, func(wait time.Duration) error {
		waits = append(waits, wait)
		return refusedLock()
	})
	var busy *BusyError
	if !errors.As(err, &busy) || busy.Err != nil ||
		!strings.Contains(err.Error(), "a table was locked by open transactions") {
		t.Errorf("%v", err)
	}
	if len(waits) != 60 {
		t.Fatalf("%d tries", len(waits))
	}
	sum := time.Duration(len(waits)) * LockPause
	for n, wait := range waits {
		if want := []time.Duration{200, 400, 800, 1600}[n/15] * time.Millisecond; wait != want {
			t.Errorf("try %d waits for %v, want %v", n, wait, want)
		}
		sum += wait
	}
	if sum != 105*time.Second { // as documented at Migrate
		t.Errorf("all in all %v", sum)
	}
}

// TestLockWaitThatIsEnded checks that a context which ends between tries gives a BusyError, and that other
// errors stay unchanged.
func TestLockWaitThatIsEnded(t *testing.T) {
	other := errors.New("other")
	for name, c := range map[string]struct {
		first, second error // nil is the context's, which has ended
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
		err := retryLocked(ctx, "a table", pause, func(time.Duration) error {
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
			!strings.Contains(err.Error(), "a table, which open transactions had locked") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
