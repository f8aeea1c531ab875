package saga_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/saga"
)

// TestLockedSagaStopsNoOther checks that other sagas go on while a transaction of the user has cancelled one
// saga and stays open, and the engine must write that saga.
func TestLockedSagaStopsNoOther(t *testing.T) {
	t.Parallel()
	pool, db, schema := onPostgres(t)
	asked := make(chan struct{}, 100)
	var requests atomic.Int64
	cancelled := make(chan struct{})
	gateway := call.NewProvider("gateway", nil)
	charge := call.NewEndpoint(gateway, func(ctx context.Context, key string, _ string) (string, error) {
		if key != "slow" || requests.Add(1) > 1 {
			return "paid", nil
		}
		asked <- struct{}{}
		<-cancelled
		return "", errors.New("503")
	})
	refund := call.NewEndpoint(gateway,
		func(context.Context, string, string) (bool, error) { return true, nil })
	pay := func(name string) *saga.Step[trip, string] {
		return saga.Call(name, charge, func(r saga.Run[trip]) string { return r.Key },
			saga.UndoCall(refund, func(_ saga.Run[trip], out string) string { return out }))
	}
	d := saga.New("locked", &saga.Options[trip]{Key: tripKey}, pay("pay"), pay("tip"),
		pgLedger(schema, "book", nil))
	e := pgEngine(t, db, saga.EngineOptions{}, d)
	pgRun(t, e)
	bound := saga.Bind(e, d)
	if _, err := bound.StartNow(t.Context(), trip{ID: "slow"}); err != nil {
		t.Fatal(err)
	}
	<-asked
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := bound.Cancel(t.Context(), tx, "slow", "the customer"); err != nil {
			return err
		}
		close(cancelled)
		time.Sleep(100 * time.Millisecond) // the engine tries to write the saga
		for n := range 200 {
			key := fmt.Sprint("k", n)
			if _, err := bound.StartNow(t.Context(), trip{ID: key}); err != nil {
				return err
			}
			within, stop := context.WithTimeout(t.Context(), 4*time.Second)
			_, err := bound.Await(within, key)
			stop()
			if err != nil {
				return fmt.Errorf("saga %d waits for the locked one: %w", n, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if end, err := bound.Await(ctx, "slow"); err != nil || end.Done {
		t.Errorf("the locked saga ended as %+v, %v", end, err)
	}
}
