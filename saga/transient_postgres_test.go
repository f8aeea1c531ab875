package saga_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// transientCase is a step, or its undo, that always fails by a transient error.
type transientCase struct {
	name string
	fail func(ctx context.Context, tx pgx.Tx) error
}

func raise(state string) func(ctx context.Context, tx pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "DO $$BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '"+state+"'; END$$")
		return err
	}
}

// transientCases are kinds of transient errors. Each schema has a table whose rows make the COMMIT fail
// with 40001.
func transientCases(schema string) []transientCase {
	cases := []transientCase{
		{"own timeout", func(ctx context.Context, tx pgx.Tx) error {
			ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			_, err := tx.Exec(ctx, "SELECT pg_sleep(1)")
			return fmt.Errorf("%v", err)
		}},
		{"skald.Outage", func(context.Context, pgx.Tx) error { return skald.Outage(errors.New("no")) }},
		{"at COMMIT", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO "+schema+".late VALUES (1)")
			return err
		}},
	}
	for _, state := range []string{"57014", "40001", "40P01", "55P03", "25P04"} {
		cases = append(cases, transientCase{state, raise(state)})
	}
	return cases
}

// shelf is a schema in which the test moves the clock by changing the stored times.
type shelf struct {
	*testing.T
	pool   *pgxpool.Pool
	schema string
}

// pass moves the times of a saga while no engine works on it.
func (s shelf) pass(key string, d time.Duration) {
	s.Helper()
	var state string
	if err := s.pool.QueryRow(s.Context(), "SELECT state FROM "+s.schema+".skald_saga WHERE key = $1",
		key).Scan(&state); err != nil {
		s.Fatal(err)
	}
	times := regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)
	state = times.ReplaceAllStringFunc(state, func(at string) string {
		was, err := time.Parse(time.RFC3339Nano, at)
		if err != nil {
			s.Fatal(err)
		}
		return was.Add(-d).Format(time.RFC3339Nano)
	})
	if _, err := s.pool.Exec(s.Context(), "UPDATE "+s.schema+
		".skald_saga SET state = $2, due = due - $3::interval, "+
		"retry = retry - $3::interval, since = since - $3::interval WHERE key = $1", key, state, d); err != nil {
		s.Fatal(err)
	}
}

func (s shelf) saga(db store.Lister, key string) store.Saga {
	s.Helper()
	all, err := store.ListSagas(s.Context(), db, store.SagaQuery{Key: key})
	if err != nil || len(all) != 1 {
		s.Fatalf("%d sagas of %s: %v", len(all), key, err)
	}
	return all[0]
}

// TestTransientFailuresFollowThePolicy: a saga whose step, or undo, always fails by a transient error is
// retried by the step's policy. Attempts do not count for 10 minutes, and count after that. The saga is
// listed as failing all the time.
func TestTransientFailuresFollowThePolicy(t *testing.T) {
	t.Parallel()
	pool, db, schema := onPostgres(t)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE "+schema+".late (n int);"+
		"CREATE FUNCTION "+schema+".late() RETURNS trigger LANGUAGE plpgsql AS "+
		"$$BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END$$;"+
		"CREATE CONSTRAINT TRIGGER late AFTER INSERT ON "+schema+".late DEFERRABLE INITIALLY DEFERRED "+
		"FOR EACH ROW EXECUTE FUNCTION "+schema+".late()"); err != nil {
		t.Fatal(err)
	}
	for i, c := range transientCases(schema) {
		for _, undo := range []bool{false, true} {
			name := fmt.Sprintf("t%d%v", i, undo)
			t.Run(fmt.Sprintf("%s, undo %v", c.name, undo), func(t *testing.T) {
				calls, free, is := transientStep(shelf{t, pool, schema}, db, name, undo, c.fail)
				if undo != is.Stuck || !undo && is.Status != "compensated" {
					t.Errorf("after its time its state is %+v", is.SagaStatus)
				}
				if free < 3 || free > 4 || calls-free != 2 {
					t.Errorf("%d calls that do not count, %d after that", free, calls-free)
				}
			})
		}
	}
	t.Run("while the database is away", func(t *testing.T) {
		calls, _, is := transientStep(shelf{t, pool, schema}, &unprobed{db}, "away", false, raise("40001"))
		if is.Status != "running" || calls > 12 {
			t.Errorf("after %d calls its state is %+v", calls, is.SagaStatus)
		}
	})
}

// unprobed is a database that never answers a probe.
type unprobed struct{ *pgstore.Store }

func (*unprobed) Probe(context.Context) error { return errors.New("no answer") }

// transientStep lets 30 minutes pass for a saga with a step, or an undo, that fails. It returns the number
// of calls, and the number within the first 10 minutes.
func transientStep(s shelf, db saga.DB[pgx.Tx], name string, undo bool,
	fail func(ctx context.Context, tx pgx.Tx) error) (calls, free int, is store.Saga) {
	policy := saga.Policy{InitialInterval: time.Minute, MaxInterval: 4 * time.Minute, Attempts: 2}
	failing := func(ctx context.Context, tx pgx.Tx) error { calls++; return fail(ctx, tx) }
	first := saga.Do("first", func(ctx context.Context, tx pgx.Tx, _ saga.Run[trip]) (string, error) {
		if undo {
			return "", nil
		}
		return "", failing(ctx, tx)
	}, func(ctx context.Context, tx pgx.Tx, _ saga.Run[trip], _ string) error { return failing(ctx, tx) },
		saga.Retry(policy), saga.RetryUndo(policy), saga.OwnCommit())
	no := saga.Do("no", func(context.Context, pgx.Tx, saga.Run[trip]) (string, error) {
		return "", skald.Reject(errors.New("no"))
	}, nil, saga.NoEffect())
	d := saga.New(name, &saga.Options[trip]{Key: tripKey}, first, no)
	log := slog.New(slog.NewTextHandler(s.Output(), nil))
	e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: log}, d)
	if err != nil {
		s.Fatal(err)
	}
	if _, err := pgStart(s.T, s.pool, e, d, trip{ID: name}); err != nil {
		s.Fatal(err)
	}
	for at := time.Duration(0); at < 30*time.Minute; at += time.Minute {
		if _, err := e.Step(s.Context()); err != nil {
			s.Fatal(err)
		}
		if is = s.saga(db, name); !is.Ended.IsZero() || is.Stuck {
			return calls, free, is
		}
		if is.Failed != calls || is.Retry.IsZero() || is.Error == "" {
			s.Fatalf("after %d calls it is listed as %+v", calls, is.SagaStatus)
		}
		if at < 10*time.Minute {
			free = calls
		}
		s.pass(name, time.Minute)
	}
	return calls, free, is
}

// TestTransientFailureInPlace: after a transient error, the step is first called four times in place.
func TestTransientFailureInPlace(t *testing.T) {
	t.Parallel()
	pool, db, schema := onPostgres(t)
	var calls atomic.Int64
	d := saga.New("trip", &saga.Options[trip]{Key: tripKey},
		saga.Do("first", func(ctx context.Context, tx pgx.Tx, _ saga.Run[trip]) (string, error) {
			calls.Add(1)
			return "", raise("40P01")(ctx, tx)
		}, nil, saga.NoEffect(), saga.Retry(saga.Policy{InitialInterval: time.Hour, MaxInterval: time.Hour})))
	e := pgEngine(t, db, saga.EngineOptions{}, d)
	if _, err := pgStart(t, pool, e, d, trip{ID: "one"}); err != nil {
		t.Fatal(err)
	}
	pgRun(t, e)
	s := shelf{t, pool, schema}
	for failed := range 3 {
		if failed > 0 {
			s.pass("one", 2*time.Hour)
		}
		for is := s.saga(db, "one"); is.Failed <= failed || is.Session != ""; is = s.saga(db, "one") {
			time.Sleep(10 * time.Millisecond)
		}
	}
	if n := calls.Load(); n != 6 {
		t.Errorf("called %d times by 3 attempts that failed", n)
	}
}
