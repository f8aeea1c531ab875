package saga_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/testlog"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

// TestWritesItsOwnSaga: a step that cancels or signals its own saga in its own transaction can never be
// committed. That counts as its failure.
func TestWritesItsOwnSaga(t *testing.T) {
	onEach(t, writesItsOwnSaga[tx], writesItsOwnSaga[*sql.Tx], writesItsOwnSaga[pgx.Tx])
}

func writesItsOwnSaga[TTx any](k *desk[TTx]) {
	calls, word := map[string]int{}, saga.Signal[string]{Name: "word"}
	k.d = saga.New("own", &saga.Options[order]{Key: orderID},
		saga.Do("first", func(ctx context.Context, tx TTx, r saga.Run[order]) (_ string, err error) {
			calls[r.Key]++
			switch sagas := saga.Bind(k.e, k.d); r.Key {
			case "signal":
				_, err = word.Send(ctx, sagas.In(tx), r.Key, "")
			case "signal alone":
				_, err = word.Send(ctx, sagas, r.Key, "")
			default:
				_, err = sagas.Cancel(ctx, tx, r.Key, "no more")
			}
			return "", err
		}, nil, saga.NoEffect(), saga.Retry(saga.Policy{Attempts: 2, InitialInterval: time.Millisecond})),
		saga.Wait[order]("wait", word))
	k.e = k.engine(k.db, metric.NewManualReader())
	k.begin(order{ID: "cancel"}, order{ID: "signal"}, order{ID: "signal alone"})
	for key, want := range map[string]int{"cancel": 4, "signal": 4, "signal alone": 1} {
		k.until(key, k.e)
		end, err := saga.Bind(k.e, k.d).Await(k.t.Context(), key)
		if err != nil || end.Done || end.Step != "first" ||
			!strings.Contains(end.Reason, "own transaction ") || calls[key] != want {
			k.t.Errorf("%s: after %d calls it ended as %+v, %v", key, calls[key], end, err)
		}
	}
}

// TestStepWritesInAnotherTransaction: a step that writes to an outbox in another transaction than its own
// is refused, unless it declares that this is intended.
func TestStepWritesInAnotherTransaction(t *testing.T) {
	db := memstore.New(nil)
	out, meant := outbox.New(db, nil), false
	d := saga.New("elsewhere", &saga.Options[order]{Key: orderID},
		saga.Do("first", func(ctx context.Context, own tx, r saga.Run[order]) (string, error) {
			other := db.BeginTx()
			if meant {
				ctx = outbox.OtherTransaction(ctx)
			}
			draft := skald.Draft{Topic: "told", Type: "told", Key: []byte(r.Key), Value: "x"}
			err := out.Write(ctx, other, draft)
			if err == nil {
				err = errors.Join(other.Commit(), out.Write(ctx, own, draft))
			}
			return "", err
		}, nil, saga.NoEffect(), saga.Retry(saga.Policy{Attempts: 1})))
	k := newDesk(t, db)
	k.d = d
	k.e = k.engine(k.db, metric.NewManualReader())
	for _, key := range []string{"refused", "meant"} {
		meant = key == "meant"
		k.begin(order{ID: key})
		k.until(key, k.e)
		end, err := saga.Bind(k.e, d).Await(t.Context(), key)
		if err != nil || end.Done != meant || !meant && !strings.Contains(end.Reason,
			`not the handler's transaction: this one is`) {
			t.Errorf("%s: it ended as %+v, %v", key, end, err)
		}
	}
}

// TestChildEndsItsTransaction: the first step of a child ends its transaction by itself and rejects. Its
// writes may be committed, so the child is stuck, and does not report to its parent that nothing was done.
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

// TestUnsureStepWaitsForAnOperator: if a saga with a step that ended its own transaction turns back, nothing
// is undone before an operator decides about the step.
func TestUnsureStepWaitsForAnOperator(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		file := opened(t, t.TempDir(), "sagas")
		if _, err := sqlitestore.Migrate(t.Context(), file, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := file.ExecContext(t.Context(), "CREATE TABLE ledger (key TEXT, step TEXT)"); err != nil {
			t.Fatal(err)
		}
		mayStand(newDesk(t, sqlitestore.New(file, nil)), "ledger",
			func(ctx context.Context, tx *sql.Tx, text string) error {
				_, err := tx.ExecContext(ctx, text)
				return err
			}, (*sql.Tx).Commit, 0, func() (n int, err error) { // the store refuses it
				return n, file.QueryRowContext(t.Context(), "SELECT count(*) FROM ledger").Scan(&n)
			})
	})
	t.Run("postgres", func(t *testing.T) {
		pool, db, schema := onPostgres(t)
		exec := func(ctx context.Context, tx pgx.Tx, text string) error {
			_, err := tx.Exec(ctx, text)
			return err
		}
		mayStand(newDesk(t, db), schema+".ledger", exec, func(tx pgx.Tx) error {
			return exec(t.Context(), tx, "COMMIT")
		}, 0, func() (n int, err error) { // the store refuses it
			return n, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".ledger").Scan(&n)
		})
	})
}

func mayStand[TTx any](k *desk[TTx], ledger string, exec func(context.Context, TTx, string) error,
	commit func(TTx) error, stands int, rows func() (int, error)) {
	step := func(name string, own bool, opts ...saga.Option) *saga.Step[order, string] {
		return saga.Do(name, func(ctx context.Context, tx TTx, r saga.Run[order]) (string, error) {
			err := exec(ctx, tx, "INSERT INTO "+ledger+" VALUES ('"+r.Key+"', '"+name+"')")
			if own {
				err = errors.Join(err, commit(tx))
			}
			return name, err
		}, func(ctx context.Context, tx TTx, r saga.Run[order], out string) error {
			return exec(ctx, tx, "DELETE FROM "+ledger+" WHERE key = '"+r.Key+"' AND step = '"+out+"'")
		}, opts...)
	}
	k.d = saga.New("own", &saga.Options[order]{Key: orderID}, step("hold", false),
		step("pay", true, saga.OwnCommit()))
	k.e = k.engine(k.db, metric.NewManualReader())
	k.begin(order{ID: "complete"}, order{ID: "skip"})
	left, keeper := 2+2*stands, k.db.(operate.SagaStore)
	expect := func(when string, is store.Saga, status string, stuck bool) {
		k.t.Helper()
		if n, err := rows(); err != nil || n != left || is.Status != status || is.Stuck != stuck {
			k.t.Errorf("%s: %d rows, %v; %s %s, stuck: %v", when, n, err, is.Key, is.Status, is.Stuck)
		}
	}
	change := func(key string, c operate.SagaChange) (why string) {
		r, err := operate.ChangeSagas(k.t.Context(), keeper, operate.SagaSelection{Key: key}, c,
			operate.Order{Author: "ann", Reason: "r"})
		if err != nil && len(r.Left) == 0 {
			k.t.Fatal(err)
		}
		if k.quiet(k.e); len(r.Left) > 0 {
			why = r.Left[0].Why
		}
		return why
	}
	for _, c := range []struct {
		operate.SagaChange
		gone int // rows
	}{
		{operate.SagaChange{Verb: operate.CompleteSaga, Step: "pay", Data: []byte(`"pay"`)}, 1 + stands},
		{operate.SagaChange{Verb: operate.SkipSaga, Step: "pay"}, 1}, // the row of another step
	} {
		key := string(c.Verb)
		expect("it stands", k.saga(key), "running", true)
		change(key, operate.SagaChange{Verb: operate.CancelSaga})
		expect("it is cancelled", k.saga(key), "compensating", true)
		for _, step := range []string{"", "pay"} {
			why := change(key, operate.SagaChange{Verb: operate.RetrySaga, Step: step})
			if !strings.Contains(why, "complete it or skip it") {
				k.t.Errorf("retry %s: %s", step, why)
			}
		}
		expect("it is not tried again", k.saga(key), "compensating", true)
		if read, err := operate.ReadSaga(k.t.Context(), keeper, "own", key); err != nil ||
			!strings.Contains(fmt.Sprint(read.Explain("")),
				"pay may have taken effect: it is stuck, and nothing is undone before an operator decides. "+
					"Its last failure: its function ended") {
			k.t.Errorf("explained: %v, %v", read.Explain(""), err)
		}
		if why := change(key, c.SagaChange); why != "" {
			k.t.Error(key, why)
		}
		left -= c.gone
		expect(key, k.saga(key), "compensated", false)
	}
}

// TestStartRefusesATooLongAddress: Start refuses a name and a key that are too long for a message, and
// so does a step whose child has them.
func TestStartRefusesATooLongAddress(t *testing.T) {
	long := saga.New(strings.Repeat("n:", 127), &saga.Options[trip]{Key: tripKey}, ledger("a"))
	outer := saga.New("outer", &saga.Options[trip]{Key: tripKey},
		saga.Child("kid", long, func(r saga.Run[trip]) trip { return trip{ID: strings.Repeat(":", 255)} }))
	db := memstore.New(nil)
	e := engineOf(t, db, outer, long)
	tx := db.BeginTx()
	if _, err := saga.Bind(e, long).Start(t.Context(), tx, trip{ID: strings.Repeat(":", 255)}); err == nil ||
		!strings.Contains(err.Error(), "use a shorter key") {
		t.Error(err)
	}
	done(t, "nothing", tx)
	running(t, e)
	begin(t, db, e, outer, trip{ID: "a"})
	if end := await(t, e, outer, "a"); end.Done || !strings.Contains(end.Reason, "use a shorter key") {
		t.Errorf("it ended as %+v", end)
	}
	ss, err := store.ListSagas(t.Context(), db, store.SagaQuery{})
	if err != nil || len(ss) != 1 {
		t.Errorf("%d sagas, %v", len(ss), err)
	}
}

// TestInboxWithoutReplies: an inbox for the replies of sagas without commands handles nothing, gets ready,
// and stops as any other.
func TestInboxWithoutReplies(t *testing.T) {
	onEach(t, inboxWithoutReplies[tx], inboxWithoutReplies[*sql.Tx], inboxWithoutReplies[pgx.Tx])
}

func inboxWithoutReplies[TTx any](k *desk[TTx]) {
	k.d = saga.New("own", &saga.Options[order]{Key: orderID},
		saga.Wait[order]("wait", saga.Signal[string]{Name: "word"}))
	k.e = k.engine(k.db, metric.NewManualReader())
	log := &testlog.Log{}
	in := inbox.New(k.db, k.bus, "orders", &inbox.Options{Logger: log.Logger()})
	k.e.Answers(in)
	ctx, stop := context.WithCancel(k.t.Context())
	done := make(chan error, 1)
	go func() { done <- in.Run(ctx) }()
	for end := time.Now().Add(time.Minute); !in.Health().Ready; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			k.t.Fatalf("it is not ready: %+v, %s", in.Health(), log)
		}
	}
	stop()
	if err := <-done; err != nil || log.Count("no handler is registered") != 1 ||
		log.Count("level=WARN") > 0 {
		k.t.Errorf("%v, %s", err, log)
	}
	for range 2 {
		if busy, err := in.Step(k.t.Context()); busy || err != nil {
			k.t.Errorf("Step: %v, %v", busy, err)
		}
	}
}
