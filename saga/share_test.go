package saga_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// commits counts the commits of units.
type commits[TTx any] struct {
	store.Driver[TTx]
	n atomic.Int64
}

func (c *commits[TTx]) Begin(ctx context.Context, in store.Intake) (store.Unit[TTx], error) {
	u, err := c.Driver.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return &committing[TTx]{u, c}, nil
}

type committing[TTx any] struct {
	store.Unit[TTx]
	of *commits[TTx]
}

func (u *committing[TTx]) Commit(ctx context.Context, es ...store.Effect) error {
	err := u.Unit.Commit(ctx, es...)
	if err == nil {
		u.of.n.Add(1)
	}
	return err
}

func (u *committing[TTx]) CommitThen(ctx context.Context, next store.Intake,
	es ...store.Effect) (store.Unit[TTx], error) {
	then, err := u.Unit.CommitThen(ctx, next, es...)
	if err == nil {
		u.of.n.Add(1)
	}
	if then != nil {
		then = &committing[TTx]{then, u.of}
	}
	return then, err
}

// sharing has sagas whose steps write one message each, and counts the calls of steps.
type sharing[TTx any] struct {
	*desk[TTx]
	commits *commits[TTx]
	out     *outbox.Outbox[TTx]
	calls   map[string]int
}

func newSharing[TTx any](k *desk[TTx]) *sharing[TTx] {
	s := &sharing[TTx]{desk: k, commits: &commits[TTx]{Driver: k.db}, calls: map[string]int{}}
	begun := time.Now() // 50 ms of a shared transaction are 5 s, so that a slow machine shares, too
	k.now = func() time.Time { return begun.Add(time.Since(begun) / 100) }
	k.db = s.commits
	s.out = outbox.New(k.db, nil)
	return s
}

func (s *sharing[TTx]) step(name string, opts ...saga.Option) *saga.Step[order, string] {
	tell := func(ctx context.Context, tx TTx, r saga.Run[order], what string) error {
		s.calls[what]++
		said := skald.Draft{Topic: "packing", Type: "pack", Key: []byte(r.Key), Value: what}
		err := s.out.Write(ctx, tx, said)
		if err == nil && slices.Contains(r.In.Lines, what) && r.Attempt == 1 {
			err = errors.New("not this time")
		}
		if err == nil && slices.Contains(r.In.Lines, "no "+what) {
			err = skald.Reject(errors.New("no"))
		}
		return err
	}
	soon := saga.Policy{InitialInterval: time.Millisecond}
	return saga.Do(name, func(ctx context.Context, tx TTx, r saga.Run[order]) (string, error) {
		return "out", tell(ctx, tx, r, strings.TrimSuffix(name+"/"+r.Occurrence, "/"))
	}, func(ctx context.Context, tx TTx, r saga.Run[order], _ string) error {
		return tell(ctx, tx, r, strings.TrimSuffix("undo "+name+"/"+r.Occurrence, "/"))
	}, append([]saga.Option{saga.Retry(soon), saga.RetryUndo(soon)}, opts...)...)
}

// run runs a saga to its end. It returns the messages of its steps and the number of commits.
func (s *sharing[TTx]) run(o order, steps ...saga.StepOf[order]) (told []string, n int) {
	s.t.Helper()
	s.d = saga.New("sharing", &saga.Options[order]{Key: orderID}, steps...)
	s.e = s.engine(s.db, metric.NewManualReader())
	clear(s.calls)
	u, err := s.db.Begin(s.t.Context(), store.Intake{})
	if err == nil {
		_, err = saga.Bind(s.e, s.d).Start(s.t.Context(), u.Tx(), o)
	}
	if err == nil {
		err = u.Commit(s.t.Context())
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.commits.n.Store(0)
	s.until(o.ID, s.e)
	n = int(s.commits.n.Swap(0))
	for _, m := range s.goOn() {
		var text string
		if err := json.Unmarshal(m.Data, &text); err != nil {
			s.t.Error(err)
		}
		told = append(told, text)
	}
	return told, n
}

// TestStepsShareACommit: consecutive local steps share a commit, including occurrences, branches and undos.
// Their messages keep the order. Each step has its own time.
func TestStepsShareACommit(t *testing.T) {
	onEach(t, func(k *desk[tx]) { share(newSharing(k)) }, func(k *desk[*sql.Tx]) { share(newSharing(k)) },
		func(k *desk[pgx.Tx]) { share(newSharing(k)) })
}

func share[TTx any](s *sharing[TTx]) {
	lines := saga.Each(func(saga.Run[order]) []string { return []string{"1", "2"} })
	day := saga.Until("day", func(saga.Run[order]) time.Time { return time.Unix(1, 0) })
	for name, c := range map[string]struct {
		steps   []saga.StepOf[order]
		fails   []string
		told    string
		commits int
	}{
		"a chain": {[]saga.StepOf[order]{s.step("a"), s.step("b"), s.step("c")}, nil, "a b c", 1},
		"branches": {[]saga.StepOf[order]{s.step("a", saga.AtStart()), s.step("b", saga.AtStart())}, nil,
			"a b", 1},
		"occurrences": {[]saga.StepOf[order]{s.step("a"), s.step("b", lines), s.step("c")}, nil,
			"a b/1 b/2 c", 1},
		"a time": {[]saga.StepOf[order]{s.step("a"), day, s.step("b")}, nil, "a b", 1},
		"own commit": {[]saga.StepOf[order]{s.step("a"), s.step("b", saga.OwnCommit()), s.step("c")}, nil,
			"a b c", 3},
		"undos": {[]saga.StepOf[order]{s.step("a"), s.step("b"), s.step("c")}, []string{"no c"},
			"a b undo b undo a", 3}, // a, b; the rejection is stored instead of its transaction
		"the second fails once": {[]saga.StepOf[order]{s.step("a"), s.step("b"), s.step("c")}, []string{"b"},
			"a b c", 3},
		"an undo fails once": {[]saga.StepOf[order]{s.step("a"), s.step("b"), s.step("c")},
			[]string{"no c", "undo a"}, "a b undo b undo a", 4},
	} {
		told, n := s.run(order{ID: name, Lines: c.fails}, c.steps...)
		if strings.Join(told, " ") != c.told || n != c.commits {
			s.t.Errorf("%s: %q in %d commits", name, told, n)
		}
		var at time.Time
		for _, r := range s.state(name).Runs {
			if c.fails == nil && r.At.Before(at) {
				s.t.Errorf("%s: %s was done before the step that it follows", name, r.Step)
			}
			at = r.At
		}
	}
	s.run(order{ID: "guilty", Lines: []string{"b"}}, s.step("a"), s.step("b"), s.step("c"))
	if s.calls["a"] != 2 || s.calls["b"] != 3 || s.calls["c"] != 1 {
		s.t.Errorf("called: %v", s.calls)
	}
}

func (s *sharing[TTx]) state(key string) (is plan.State) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.saga(key).State), &is); err != nil {
		s.t.Fatal(err)
	}
	return is
}

// TestSharedTransactionHasLimits: no step is added to a transaction after 20 steps, after 50 ms, or after
// MaxBytes of outputs.
func TestSharedTransactionHasLimits(t *testing.T) {
	var now time.Time
	occurrences := saga.Each(func(r saga.Run[order]) (out []string) {
		for i := range r.In.Cents {
			out = append(out, fmt.Sprint(i))
		}
		return out
	})
	slow := time.Duration(0)
	d := saga.New("limits", &saga.Options[order]{Key: orderID, MaxBytes: 100},
		saga.Do("many", func(_ context.Context, _ tx, r saga.Run[order]) (string, error) {
			now = now.Add(slow)
			return strings.Join(r.In.Lines, ""), nil
		}, nil, saga.NoEffect(), occurrences))
	for name, c := range map[string]struct {
		o    order
		slow time.Duration
		want int
	}{
		"steps": {order{ID: "steps", Cents: 41}, 0, 3},
		"time":  {order{ID: "time", Cents: 6}, 20 * time.Millisecond, 2},
		"bytes": {order{ID: "bytes", Cents: 4, Lines: []string{strings.Repeat("x", 50)}}, 0, 2},
	} {
		now, slow = time.Now(), c.slow
		clock := func() time.Time { return now }
		mem := memstore.New(&memstore.Options{Now: clock})
		db := &commits[tx]{Driver: mem}
		o := &saga.EngineOptions{Now: clock, Logger: slog.New(slog.DiscardHandler)}
		e, err := saga.NewEngine(db, o, d)
		if err != nil {
			t.Fatal(err)
		}
		begin(t, mem, e, d, c.o)
		settle(t, e)
		if end := await(t, e, d, name); !end.Done || int(db.n.Load()) != c.want {
			t.Errorf("%s: done %v, in %d commits", name, end.Done, db.n.Load())
		}
	}
}

// TestDeadlineAndCancelBetweenSharedSteps: the deadline stops the second of two steps that share a
// transaction, as between two commits. A cancellation waits for the commit, and then both steps are undone.
func TestDeadlineAndCancelBetweenSharedSteps(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	db := memstore.New(&memstore.Options{Now: clock})
	var e *saga.Engine[tx]
	var d *saga.Definition[trip]
	cancelled := make(chan saga.SignalResult, 1)
	d = saga.New("between", &saga.Options[trip]{Key: tripKey, Deadline: 30 * time.Millisecond}, ledger("a"),
		saga.Do("b", func(_ context.Context, own tx, r saga.Run[trip]) (int, error) {
			if r.Key == "late" {
				now = now.Add(40 * time.Millisecond)
				return 0, nil
			}
			began := make(chan bool)
			go func() {
				close(began)
				cancelled <- within(t, db, func(tx tx) (saga.SignalResult, error) {
					return saga.Bind(e, d).Cancel(context.Background(), tx, r.Key, "no more")
				})
			}()
			<-began
			return 0, nil
		}, func(context.Context, tx, saga.Run[trip], int) error { return nil }),
		ledger("c"), saga.Wait[trip]("wait", saga.Signal[int]{Name: "go"}), ledger("d"))
	e, err := saga.NewEngine(db, &saga.EngineOptions{Now: clock, Logger: slog.New(slog.DiscardHandler)}, d)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, db, e, d, trip{ID: "late"})
	settle(t, e)
	if end := await(t, e, d, "late"); end.Why != "deadline" || left(db, "late") > 0 {
		t.Errorf("%+v", end)
	}
	ss, err := store.ListSagas(t.Context(), db, store.SagaQuery{Key: "late"})
	if err != nil || strings.Contains(ss[0].State, `"c","phase":"undone"`) {
		t.Errorf("c was begun after the deadline: %v, %v", ss, err)
	}
	begin(t, db, e, d, trip{ID: "cancel"})
	settle(t, e)
	if got := <-cancelled; got != saga.Taken {
		t.Error(got)
	}
	settle(t, e)
	if end := await(t, e, d, "cancel"); end.Why != "cancel" || left(db, "cancel") > 0 {
		t.Errorf("%+v, %d rows", end, left(db, "cancel"))
	}
}

// TestSharedTransactionIsEndedByAFunction: a function that ends a shared transaction makes all its steps
// stuck, each in its turn. An operator retries a step without effect, and completes a step whose write
// exists.
func TestSharedTransactionIsEndedByAFunction(t *testing.T) {
	pool, db, schema := onPostgres(t)
	k := newDesk(t, store.Driver[pgx.Tx](db))
	if _, err := pool.Exec(t.Context(), "CREATE TABLE "+schema+".shared (step text)"); err != nil {
		t.Fatal(err)
	}
	step := func(name, end string) *saga.Step[order, string] {
		return saga.Do(name, func(ctx context.Context, tx pgx.Tx, _ saga.Run[order]) (string, error) {
			_, err := tx.Exec(ctx, end)
			if err == nil {
				_, err = tx.Exec(ctx, "INSERT INTO "+schema+".shared VALUES ('"+name+"')")
			}
			return name, err
		}, nil, saga.NoEffect())
	}
	k.d = saga.New("ended", &saga.Options[order]{Key: orderID}, step("a", ""), step("b", "ROLLBACK"),
		step("c", ""))
	k.e = k.engine(k.db, k.seen)
	k.begin(order{ID: "o"})
	rows := func() (n int) {
		if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".shared").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if is := k.saga("o"); !is.Stuck || is.Step != "a" || !strings.Contains(is.Error, "transaction: a, b") ||
		rows() != 1 {
		t.Errorf("%+v, %d rows", is.SagaStatus, rows())
	}
	text, err := operate.ReadSaga(t.Context(), db, "", "o")
	if err != nil || !strings.Contains(strings.Join(text.Explain(""), " "), "may be committed: b.") {
		t.Errorf("%q, %v", text.Explain(""), err)
	}
	for i, c := range []operate.SagaChange{{Verb: operate.RetrySaga, Step: "a"},
		{Verb: operate.CompleteSaga, Step: "b", Data: []byte(`"b"`)}} {
		if is := k.saga("o"); !is.Stuck || is.Step != c.Step || rows() != i+1 {
			t.Errorf("%d steps are settled: %+v, %d rows", i, is.SagaStatus, rows())
		}
		r, err := operate.ChangeSagas(t.Context(), db, operate.SagaSelection{Key: "o"}, c,
			operate.Order{Author: "ann", Reason: "r"})
		if err != nil {
			t.Fatal(r, err)
		}
		k.quiet(k.e)
	}
	if is := k.saga("o"); is.Status != "done" || rows() != 3 {
		t.Errorf("%+v, %d rows", is.SagaStatus, rows())
	}
}

// TestSharedTransactionCollides: a deadlock that only sharing caused counts for no step. After it, sagas of
// the definition do not share for a while.
func TestSharedTransactionCollides(t *testing.T) {
	_, db, _ := onPostgres(t)
	k := newSharing(newDesk(t, store.Driver[pgx.Tx](db)))
	fails := 1
	collides := saga.Do("b", func(ctx context.Context, tx pgx.Tx, _ saga.Run[order]) (string, error) {
		if fails--; fails == 0 {
			return "", raise("40P01")(ctx, tx)
		}
		return "", nil
	}, nil, saga.NoEffect(), saga.Retry(saga.Policy{Attempts: 1}))
	k.d = saga.New("collides", &saga.Options[order]{Key: orderID}, k.step("a"), collides, k.step("c"))
	k.e = k.engine(k.db, metric.NewManualReader())
	for i, want := range []int64{3, 3} { // a, b, and c after b; then one by one
		key := fmt.Sprint(i)
		if _, err := saga.Bind(k.e, k.d).StartNow(t.Context(), order{ID: key}); err != nil {
			t.Fatal(err)
		}
		k.commits.n.Store(0)
		k.until(key, k.e)
		if n := k.commits.n.Load(); n != want || k.state(key).Runs[1].Free.Times > 0 {
			t.Errorf("%s: %d commits, %+v", key, n, k.state(key).Runs)
		}
	}
	if k.calls["a"] != 3 {
		t.Errorf("called: %v", k.calls)
	}
}

// TestTemporaryTableOfADatabaseFunction checks that no step meets the rows of another one in a temporary
// table that a function of the database makes, though Skald does not see its statements.
func TestTemporaryTableOfADatabaseFunction(t *testing.T) {
	pool, db, schema := onPostgres(t)
	k := newDesk(t, store.Driver[pgx.Tx](db))
	if _, err := pool.Exec(t.Context(), "CREATE TABLE "+schema+".seen (n int); CREATE FUNCTION "+schema+`.scratch() RETURNS void LANGUAGE plpgsql AS $$
		BEGIN
			CREATE TEMP TABLE IF NOT EXISTS scratch (n int) ON COMMIT DROP;
			INSERT INTO scratch VALUES (1);
			INSERT INTO `+schema+`.seen SELECT count(*) FROM scratch;
		END$$`); err != nil {
		t.Fatal(err)
	}
	step := func(name string) *saga.Step[order, string] {
		return saga.Do(name, func(ctx context.Context, tx pgx.Tx, _ saga.Run[order]) (string, error) {
			_, err := tx.Exec(ctx, "SELECT "+schema+".scratch()")
			return name, err
		}, nil, saga.NoEffect())
	}
	k.d = saga.New("scratch", &saga.Options[order]{Key: orderID}, step("a"), step("b"), step("c"))
	k.e = k.engine(k.db, k.seen)
	k.begin(order{ID: "o"})
	var seen string
	err := pool.QueryRow(t.Context(), "SELECT string_agg(n::text, ' ') FROM "+schema+".seen").Scan(&seen)
	if err != nil || seen != "1 1 1" || k.saga("o").Status != "done" {
		t.Errorf("the steps saw %q rows, %v; %+v", seen, err, k.saga("o").SagaStatus)
	}
}

// TestCommandBetweenSharedSteps: a command that becomes possible between two steps is sent in the same
// order as without sharing.
func TestCommandBetweenSharedSteps(t *testing.T) {
	k := newSharing(newDesk(t, store.Driver[tx](memstore.New(nil))))
	a := k.step("a")
	pack := saga.Command("pack", packIt, func(r saga.Run[order]) stand { return stand{Order: r.Key} },
		saga.Reply(packed), saga.NoEffect(), saga.After(a))
	k.d = saga.New("between", &saga.Options[order]{Key: orderID}, a, pack, k.step("b", saga.After(a)))
	k.e = k.engine(k.db, metric.NewManualReader())
	var told []string
	for _, m := range k.begin(order{ID: "o"}) {
		told = append(told, string(m.Data))
	}
	if len(told) != 3 || told[0] != `"a"` || told[2] != `"b"` {
		t.Errorf("in the order %v", told)
	}
}

// TestCallBetweenSharedSteps: a request ends the sharing, because it does not run in the transaction. The
// steps before it run once.
func TestCallBetweenSharedSteps(t *testing.T) {
	k := newSharing(newDesk(t, store.Driver[tx](memstore.New(nil))))
	pay := saga.CallWith("pay", saga.Request[tx, order, string, string]{At: call.NewProvider("p", nil),
		Intent: func(_ context.Context, _ tx, r saga.Run[order]) (string, error) { return r.Key, nil },
		Do:     func(_ context.Context, req, _ string) (string, error) { return req, nil },
	}, nil, saga.NoEffect())
	told, _ := k.run(order{ID: "o"}, k.step("a"), k.step("b"), pay, k.step("c"))
	if strings.Join(told, " ") != "a b c" || k.calls["a"] != 1 || k.calls["b"] != 1 {
		t.Errorf("messages %v, called %v", told, k.calls)
	}
}
