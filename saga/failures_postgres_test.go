package saga_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/saga"
)

// failuresOf returns the stored errors of a saga by step.
func failuresOf(t *testing.T, db saga.DB[pgx.Tx], key string) map[string][]string {
	t.Helper()
	read, err := operate.ReadSaga(t.Context(), db, "trip", key)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, r := range read.Detail(false).Runs {
		for _, f := range r.Failures {
			if f.At.IsZero() || time.Since(f.At) > time.Hour {
				t.Errorf("%s failed at %v", r.Step, f.At)
			}
			way := map[bool]string{false: "do: ", true: "undo: "}[f.Undo]
			out[r.Step+r.Occurrence] = append(out[r.Step+r.Occurrence], way+f.Error)
		}
	}
	return out
}

// TestFailuresAreStored: the saga's row has the failed attempts of a step that succeeded at last, of
// occurrences side by side, and of an undo.
func TestFailuresAreStored(t *testing.T) {
	t.Parallel()
	pool, db, schema := onPostgres(t)
	var flight, undo atomic.Int64
	soon := saga.Policy{InitialInterval: time.Millisecond, MaxInterval: time.Millisecond}
	d := saga.New("trip", &saga.Options[trip]{Key: tripKey},
		saga.Do("flight", func(ctx context.Context, tx pgx.Tx, r saga.Run[trip]) (string, error) {
			_, err := tx.Exec(ctx, "INSERT INTO "+schema+".ledger VALUES ($1, 'flight')", r.Key)
			if err != nil {
				return "", err
			}
			switch n := flight.Add(1); n {
			case 1, 3:
				return "", fmt.Errorf("failure %d", n)
			case 2:
				return "", skald.Outage(fmt.Errorf("failure %d", n))
			}
			return "flight", nil
		}, func(ctx context.Context, tx pgx.Tx, r saga.Run[trip], _ string) error {
			if n := undo.Add(1); n < 3 {
				return fmt.Errorf("undo failure %d", n)
			}
			_, err := tx.Exec(ctx, "DELETE FROM "+schema+".ledger WHERE key = $1", r.Key)
			return err
		}, saga.Retry(soon), saga.RetryUndo(soon)),
		saga.Do("seat", func(_ context.Context, _ pgx.Tx, r saga.Run[trip]) (string, error) {
			if r.Attempt == 1 {
				return "", errors.New("no seat " + r.Occurrence)
			}
			return "", nil
		}, nil, saga.NoEffect(), saga.Each(func(saga.Run[trip]) []string { return []string{"1", "2"} }),
			saga.Retry(soon)),
		saga.Do("car", func(context.Context, pgx.Tx, saga.Run[trip]) (string, error) {
			return "", skald.Reject(errors.New("no car"))
		}, nil, saga.NoEffect()))
	e := pgEngine(t, db, saga.EngineOptions{}, d)
	pgRun(t, e)
	if _, err := pgStart(t, pool, e, d, trip{ID: "one"}); err != nil {
		t.Fatal(err)
	}
	if end, err := saga.Bind(e, d).Await(t.Context(), "one"); err != nil || end.Done {
		t.Fatal(end, err)
	}
	if n := pgRows(t, pool, schema, "one"); n != 0 {
		t.Errorf("%d rows are not undone", n)
	}
	want := map[string][]string{
		"flight": {"do: failure 1", "do: outage: failure 2", "do: failure 3", "undo: undo failure 1",
			"undo: undo failure 2"},
		"seat1": {"do: no seat 1"}, "seat2": {"do: no seat 2"}, "car": {"do: rejected: no car"}}
	if got := failuresOf(t, db, "one"); !reflect.DeepEqual(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
}
