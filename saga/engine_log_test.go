package saga_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/testlog"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/memstore"
)

func logging(t *testing.T, db *memstore.Store, log *testlog.Log, defs ...saga.Defined) *saga.Engine[tx] {
	t.Helper()
	o := &saga.EngineOptions{Logger: log.Logger()}
	e, err := saga.NewEngine(db, o, defs...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// runFor runs an engine for a duration of the fake clock.
func runFor(t *testing.T, e *saga.Engine[tx], d time.Duration) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	if err := e.Run(ctx); err != nil {
		t.Error(err)
	}
}

// TestEngineLogsWhatFails: the log contains the sagas that run, and the steps that fail with their errors,
// each fault once. It contains nothing about success.
func TestEngineLogsWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, log := memstore.New(nil), &testlog.Log{}
		none := map[string]map[string]int{}
		d := saga.New("booking", &saga.Options[trip]{Key: tripKey}, ledger("hold"),
			saga.Do("charge", func(_ context.Context, _ tx, r saga.Run[trip]) (int, error) {
				if r.In.Fail != nil {
					none["charged"][r.Key]++
				}
				return 0, nil
			}, nil, saga.NoEffect(), saga.Retry(saga.Policy{InitialInterval: time.Millisecond, Attempts: 5})),
			saga.Wait[trip]("approve", saga.Signal[string]{Name: "approved"}, saga.Timeout(time.Minute)))
		e := logging(t, db, log, d)
		for i := range 20 {
			begin(t, db, e, d, trip{ID: fmt.Sprint("bad-", i), Fail: map[string]string{"x": "y"}})
		}
		begin(t, db, e, d, trip{ID: "good"})
		runFor(t, e, 2*time.Minute)
		for line, want := range map[string]int{
			`msg="saga: running" sagas=[booking]`:                                  1,
			`msg="saga: ready"`:                                                    1,
			`msg="saga: stack of the panic" saga=booking frame=0`:                  1,
			`msg="saga: a step failed`:                                             1,
			`msg="saga: turns back; see: skald saga explain NAME KEY"`:             2, // by panic and wait
			`step=charge why=failed`:                                               1,
			`step=approve why=failed reason="no signal approved came within 1m0s"`: 1,
			`stack=`:      0,
			`level=ERROR`: log.Count("frame="),
		} {
			if n := log.Count(line); n != want {
				t.Errorf("%q is in %d lines, want %d", line, n, want)
			}
		}
		if n := log.Count("saga: a step failed", "saga=booking key=bad-", "step=charge", "attempt=1",
			"next="); n != 1 {
			t.Errorf("the line of the failure: %s", log)
		}
	})
}

// TestEngineLogsThePanicOfACondition: the log contains the stack of a panic in a condition, too.
func TestEngineLogsThePanicOfACondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, log := memstore.New(nil), &testlog.Log{}
		d := saga.New("booking", &saga.Options[trip]{Key: tripKey}, ledger("hold",
			saga.When(func(saga.Run[trip]) bool { panic("odd") })))
		e := logging(t, db, log, d)
		begin(t, db, e, d, trip{ID: "a"})
		runFor(t, e, 10*time.Second)
		if log.Count("stack of the panic", "frame=0", "TestEngineLogsThePanicOfACondition") != 1 {
			t.Errorf("no stack: %s", log)
		}
	})
}

// TestEngineLogsSagasWithoutADefinition checks that an engine logs once which sagas of the database it has no
// definition for. The line is a warning if no engine runs them.
func TestEngineLogsSagasWithoutADefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New(nil)
		d := trips()
		begin(t, db, engineOf(t, db, d), d, trip{ID: "a"}) // by a process without a running engine
		tells := func(level string, want int) {
			t.Helper()
			log := &testlog.Log{}
			runFor(t, logging(t, db, log, packing()), 10*time.Second)
			if n := log.Count("level="+level, "name=trip running=1"); n != want {
				t.Errorf("%s: %d lines: %s", level, n, log)
			}
		}
		tells("INFO", 1)
		time.Sleep(2 * time.Minute)
		tells("WARN", 1)
		runFor(t, engineOf(t, db, d), 10*time.Second)
		tells("WARN", 0)
		tells("INFO", 0)
	})
}

// TestEngineWarnsOfUnhandledReplies: an engine with commands logs a warning if no consumer handles
// their replies, here or in another process.
func TestEngineWarnsOfUnhandledReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, bus := memstore.New(nil), membroker.New(nil)
		if err := bus.MakeTopics(t.Context(), 2, "packing", "packed"); err != nil {
			t.Fatal(err)
		}
		warned := func(with func(*saga.Engine[tx])) int {
			log := &testlog.Log{}
			e := logging(t, db, log, packing())
			with(e)
			runFor(t, e, 10*time.Second)
			return log.Count("level=WARN", "saga=packing steps=[pack] topics=[packed]", "engine.Answers")
		}
		in := inbox.New(db, bus, "orders", nil)
		if n := warned(func(*saga.Engine[tx]) {}); n != 1 {
			t.Errorf("no consumer handles replies: %d lines", n)
		}
		if n := warned(func(e *saga.Engine[tx]) { e.Answers(in) }); n != 0 {
			t.Errorf("an inbox of this process handles them: %d lines", n)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := in.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if n := warned(func(*saga.Engine[tx]) {}); n != 0 {
			t.Errorf("another process handles them: %d lines", n)
		}
	})
}
