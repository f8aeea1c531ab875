package sagatest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store/pgstore"
)

type freshPostgres = func(context.Context) (sagatest.Beginner[pgx.Tx], error)

// schemaOfSteps creates a schema with one table, and returns a function that empties it before a run.
func schemaOfSteps(t *testing.T) freshPostgres {
	t.Helper()
	config, err := pgxpool.ParseConfig(need.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	name := "check_" + strings.ToLower(rand.Text()[:10])
	config.ConnConfig.RuntimeParams["search_path"] = name
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := pool.Exec(context.Background(), "DROP SCHEMA "+name+" CASCADE"); err != nil {
			t.Error(err)
		}
		pool.Close()
	})
	for _, statement := range []string{"CREATE SCHEMA " + name, "CREATE TABLE done (step text PRIMARY KEY)"} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	db := pgstore.New(pool, nil)
	return func(ctx context.Context) (sagatest.Beginner[pgx.Tx], error) {
		_, err := pool.Exec(ctx, "DELETE FROM done")
		return db, err
	}
}

// eightSteps are seven steps with an undo, and a pivot, which emits an event.
func eightSteps(forgets string) *saga.Definition[seats] {
	out := outbox.New(pgstore.New(nil, nil), nil)
	steps := []saga.StepOf[seats]{}
	for n := range 7 {
		name := fmt.Sprintf("s%d", n+1)
		steps = append(steps, saga.Exec(name,
			func(ctx context.Context, tx pgx.Tx, _ saga.Run[seats]) error {
				_, err := tx.Exec(ctx, "INSERT INTO done VALUES ($1)", name)
				return err
			}, func(ctx context.Context, tx pgx.Tx, _ saga.Run[seats]) error {
				if name == forgets {
					return nil
				}
				_, err := tx.Exec(ctx, "DELETE FROM done WHERE step = $1", name)
				return err
			}))
	}
	steps = append(steps, saga.Exec("tell", func(ctx context.Context, tx pgx.Tx, r saga.Run[seats]) error {
		_, err := tx.Exec(ctx, "INSERT INTO done VALUES ('tell')")
		return errors.Join(err, out.Write(ctx, tx, booked.New(r.Key, r.In)))
	}, nil, saga.Pivot()))
	return saga.New("eight", &saga.Options[seats]{Key: func(s seats) string { return s.Show }}, steps...)
}

func doneSteps() sagatest.Term {
	return sagatest.View(func(ctx context.Context, tx pgx.Tx) (out string, err error) {
		err = tx.QueryRow(ctx, "SELECT coalesce(string_agg(step, ' ' ORDER BY step), '') FROM done").Scan(&out)
		return out, err
	})
}

// TestCheckOnPostgreSQLInShort: the short mode runs each fault at each of eight steps on PostgreSQL, in two
// schemas in parallel. The short mode needs a fraction of the runs and at most 20 s, but finds an undo that
// does nothing.
func TestCheckOnPostgreSQLInShort(t *testing.T) {
	first, second := schemaOfSteps(t), schemaOfSteps(t)
	since := time.Now()
	c := sagatest.CheckOn(t, first, eightSteps(""), seats{"hamlet", 2}, doneSteps(),
		sagatest.EmitsIfDone(booked), sagatest.AlsoOn(second), sagatest.WithoutPairs())
	t.Logf("%d runs in %v", c.Runs, time.Since(since))
	if c.Runs < 45 || c.Runs > 70 {
		t.Errorf("%d runs, where eight steps have 6 faults each", c.Runs)
	}
	r := &recorder{T: t}
	sagatest.CheckOn(r, first, eightSteps("s3"), seats{"hamlet", 2}, doneSteps(), sagatest.AlsoOn(second),
		sagatest.WithoutPairs())
	if said := strings.Join(r.said, "\n"); !strings.Contains(said, "it is compensated, and left\n    s3\n") {
		t.Errorf("got %q", said)
	}
}

// TestCheckOnPostgreSQL runs all schedules of eight steps.
func TestCheckOnPostgreSQL(t *testing.T) {
	need.Nightly(t, "about 340 runs, each of up to 16 transactions")
	first, second := schemaOfSteps(t), schemaOfSteps(t)
	since := time.Now()
	c := sagatest.CheckOn(t, first, eightSteps(""), seats{"hamlet", 2}, doneSteps(),
		sagatest.EmitsIfDone(booked), sagatest.AlsoOn(second))
	if t.Logf("%d runs in %v", c.Runs, time.Since(since)); c.Runs < 200 {
		t.Errorf("%d runs", c.Runs)
	}
}
