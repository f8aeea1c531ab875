package saga_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
)

// A step that cancels or signals its own saga in its own transaction can never be committed: that is charged
// to it.
func TestWritesItsOwnSaga(t *testing.T) {
	onEach(t, writesItsOwnSaga[tx], writesItsOwnSaga[*sql.Tx], writesItsOwnSaga[pgx.Tx])
}

func writesItsOwnSaga[TTx any](k *desk[TTx]) {
	calls, word := map[string]int{}, saga.Signal[string]{Name: "word"}
	k.d = saga.New("own", &saga.Options[order]{Key: orderID},
		saga.Do("first", func(ctx context.Context, tx TTx, r saga.Run[order]) (_ string, err error) {
			if calls[r.Key]++; r.Key == "signal" {
				_, err = saga.SendIn(ctx, k.e, tx, k.d, r.Key, word, "")
			} else {
				_, err = saga.Cancel(ctx, k.e, tx, k.d, r.Key, "no more")
			}
			return "", err
		}, nil, saga.NoEffect(), saga.Retry(saga.Policy{Attempts: 2, First: time.Millisecond})),
		saga.Wait[order]("wait", word))
	k.e = k.engine(k.db, metric.NewManualReader())
	k.begin(order{ID: "cancel"}, order{ID: "signal"})
	for _, key := range []string{"cancel", "signal"} {
		k.until(key, k.e)
		end, err := k.e.Await(k.t.Context(), k.d, key)
		if err != nil || end.Done || end.Step != "first" ||
			!strings.Contains(end.Reason, "its own transaction writes its saga") || calls[key] != 4 {
			k.t.Errorf("%s: after %d calls it ended as %+v, %v", key, calls[key], end, err)
		}
	}
}

// The first step of a child ends its transaction by itself and says no: what it wrote may stand, so the child
// is stuck, and does not tell its parent that nothing was done.
func TestChildEndsItsTransaction(t *testing.T) {
	onEach(t, func(k *desk[tx]) {}, func(k *desk[*sql.Tx]) {
		childEnds(k, func(_ context.Context, tx *sql.Tx) error { return tx.Commit() })
	}, func(k *desk[pgx.Tx]) {
		childEnds(k,
			func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "COMMIT"); return err })
	})
}

func childEnds[TTx any](k *desk[TTx], commit func(context.Context, TTx) error) {
	inner := saga.New("inner", &saga.Options[order]{Key: orderID},
		saga.Do("first", func(ctx context.Context, tx TTx, _ saga.Run[order]) (string, error) {
			if err := commit(ctx, tx); err != nil {
				return "", err
			}
			return "", skald.Reject(errors.New("no"))
		}, nil, saga.NoEffect()))
	k.d = saga.New("outer", &saga.Options[order]{Key: orderID},
		saga.Child("kid", inner, func(saga.Run[order]) order { return order{ID: "kid"} }))
	k.e = k.engine(k.db, metric.NewManualReader())
	k.begin(order{ID: "o"})
	ss, err := store.ListSagas(k.t.Context(), k.db, store.SagaQuery{Name: "inner"})
	if err != nil || len(ss) != 1 || !ss[0].Stuck || !strings.Contains(ss[0].Error, "ended the transaction") {
		k.t.Errorf("the child: %+v, %v", ss, err)
	}
	if is := k.saga("o"); !is.Ended.IsZero() {
		k.t.Errorf("its parent is %s", is.Status)
	}
}
