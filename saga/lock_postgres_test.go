package saga_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// TestPostgresLock: two engines run sagas of two accounts on PostgreSQL. Some turn back, some are
// cancelled. Each saga is alone with its accounts, and no queue entry is left.
func TestPostgresLock(t *testing.T) {
	t.Parallel()
	pool, db, schema := onPostgres(t)
	inside := "CREATE TABLE " + schema + ".inside (account text PRIMARY KEY, key text)"
	if _, err := pool.Exec(t.Context(), inside); err != nil {
		t.Fatal(err)
	}
	out := func(ctx context.Context, tx pgx.Tx, r saga.Run[trip]) error {
		_, err := tx.Exec(ctx, "DELETE FROM "+schema+".inside WHERE key = $1", r.Key)
		return err
	}
	enter := saga.Do("enter", func(ctx context.Context, tx pgx.Tx, r saga.Run[trip]) (_ int, err error) {
		for _, e := range accounts(r) {
			_, failed := tx.Exec(ctx, "INSERT INTO "+schema+".inside VALUES ($1, $2)", e.Key, r.Key)
			err = errors.Join(err, failed)
		}
		return 0, err
	}, func(ctx context.Context, tx pgx.Tx, r saga.Run[trip], _ int) error { return out(ctx, tx, r) },
		saga.Retry(saga.Policy{Attempts: 1}))
	leave := saga.Do("leave", func(ctx context.Context, tx pgx.Tx, r saga.Run[trip]) (int, error) {
		return 0, out(ctx, tx, r)
	}, nil, saga.NoEffect())
	d := saga.New("locking", &saga.Options[trip]{Key: tripKey}, pgLedger(schema, "before", nil),
		saga.Lock("lock", accounts), enter, pgLedger(schema, "work", nil), leave)
	one := pgEngine(t, db, saga.EngineOptions{}, d)
	two := pgEngine(t, pgstore.New(pool, &pgstore.Options{Schema: schema}), saga.EngineOptions{}, d)
	pgRun(t, one)
	pgRun(t, two)
	const sagas = 60
	locks := []string{"a", "b", "a b", "b a"}
	for i := range sagas {
		in := trip{ID: fmt.Sprint("t-", i), Fail: map[string]string{"lock": locks[i%4]}}
		if i%3 == 0 {
			in.Fail["work"] = "reject"
		}
		if _, err := pgStart(t, pool, []*saga.Engine[pgx.Tx]{one, two}[i%2], d, in); err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := saga.Bind(one, d).Cancel(t.Context(), tx, in.ID, "no more")
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for i := range sagas {
		end, err := saga.Bind(one, d).Await(ctx, fmt.Sprint("t-", i))
		if err != nil {
			t.Fatal(err)
		}
		if i%10 != 9 && end.Done != (i%3 != 0) || !end.Done && end.Step != "work" && end.Why != "cancel" {
			t.Errorf("t-%d ended as %+v", i, end)
		}
	}
	hs, err := store.ListHolds(t.Context(), db, store.HoldQuery{})
	if err != nil || len(hs) > 0 {
		t.Errorf("held are %+v, %v", hs, err)
	}
	var left int
	err = pool.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".inside").Scan(&left)
	if err != nil || left > 0 {
		t.Errorf("%d are inside, %v", left, err)
	}
}
