package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// logged returns the log lines of f.
func logged(t *testing.T, f func(*counters)) []string {
	t.Helper()
	var log bytes.Buffer
	synctest.Test(t, func(*testing.T) {
		f(newCounters(slog.New(slog.NewTextHandler(&log, nil)), telemetry.NewSaga(telemetry.Providers{}),
			nil))
	})
	return strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
}

func one(key int) store.Saga { return store.Saga{Name: "order", Key: fmt.Sprint("o-", key)} }

// failing returns a step that has failed several times, and is retried.
func failing(attempts int, why string) plan.State {
	return plan.State{Status: plan.Running, Runs: []plan.Run{{Step: "pay", Phase: plan.Ready,
		Attempts: attempts, Error: why, Due: time.Unix(int64(1_000+attempts), 0)}}}
}

// TestAFaultOfManySagasIsRateLimited: the log has few lines about an outage that hits many sagas, and they
// contain the number of sagas.
func TestAFaultOfManySagasIsRateLimited(t *testing.T) {
	lines := logged(t, func(y *counters) {
		ready := plan.State{Status: plan.Running, Runs: []plan.Run{{Step: "pay", Phase: plan.Ready}}}
		for i := range 100_000 {
			y.Moved(one(i), ready, failing(1, fmt.Sprintf("dial %d: refused", i)))
		}
		y.Moved(one(1), failing(1, "gone"), failing(2, "another one"))
		time.Sleep(time.Hour)
		y.Moved(one(7), failing(1, "gone"), failing(2, "dial 7: refused"))
	})
	if len(lines) != 3 || !strings.Contains(lines[0], "skald saga explain") ||
		!strings.Contains(lines[0], "key=o-0 step=pay next=") ||
		!strings.Contains(lines[0], `attempt=1 error="dial 0: refused"`) ||
		!strings.Contains(lines[1], "another one") || !strings.Contains(lines[2], "others=99999") {
		t.Errorf("%d lines: %.2000s", len(lines), lines)
	}
}

// TestOutagesAreRateLimited checks that errors of the database, and sagas that this build cannot run, have
// few log lines.
func TestOutagesAreRateLimited(t *testing.T) {
	lines := logged(t, func(y *counters) {
		for i := range 1_000 {
			y.Unstored(context.Background(), one(i), 1, fmt.Errorf("dial %d: refused", i))
			y.Refused(context.Background(), one(i), errors.New("it has another step"))
		}
		if n := y.Health(0).Refused; n != 1_000 {
			t.Errorf("%d refusals were counted", n)
		}
	})
	if len(lines) != 2 {
		t.Errorf("logged: %s", strings.Join(lines, "\n"))
	}
}

// TestFaultsAreBounded checks that the number of remembered faults is limited, regardless of their texts.
func TestFaultsAreBounded(t *testing.T) {
	var kept int
	lines := logged(t, func(y *counters) {
		for i := range 10 * mostFaults {
			y.Moved(one(i), failing(0, ""), failing(1, strings.Repeat("x", i)))
		}
		for i := range 10 * mostFaults { // and whatever the number of occurrences
			y.Alarms(one(i), []plan.Action{{Verb: plan.Alarm, Stuck: true, Step: "pay",
				Occurrence: strings.Repeat("y", i), Reason: "no"}})
		}
		kept = len(y.faults.counts)
	})
	if len(lines) > mostFaults+1+eachStuck || kept > mostFaults+2 {
		t.Errorf("%d lines, %d are stored", len(lines), kept)
	}
}

// TestSuccessIsNotLogged checks that the log has no line about a step that succeeds, or that waits for its
// reply.
func TestSuccessIsNotLogged(t *testing.T) {
	done, waits := failing(0, ""), failing(1, "there was no reply within 1s")
	done.Runs[0].Phase, done.Runs[0].Due = plan.IsDone, time.Time{}
	waits.Runs[0].Phase, waits.Runs[0].Due = plan.Waiting, time.Unix(5_000, 0)
	lines := logged(t, func(y *counters) {
		y.Moved(one(1), failing(1, "no"), done)
		y.Moved(one(1), failing(1, "no"), failing(1, "no"))
		y.Moved(one(1), failing(1, "there was no reply within 1s"), waits)
	})
	if lines[0] != "" {
		t.Errorf("logged: %s", lines)
	}
}

// TestTurnedBackAndStuck: the reason why a saga turns back is logged once, as a warning after a failure.
// Stuck sagas are logged each, up to a limit.
func TestTurnedBackAndStuck(t *testing.T) {
	back := func(why plan.Why) plan.State {
		st := failing(1, "no")
		st.Status, st.Cause = plan.Compensating, &plan.Cause{Why: why, Step: "pay", Reason: "no"}
		return st
	}
	lines := logged(t, func(y *counters) {
		y.Moved(one(1), failing(0, ""), back(plan.WhyFailed))
		y.Moved(one(1), back(plan.WhyFailed), back(plan.WhyFailed))
		y.Moved(one(2), failing(0, ""), back(plan.WhyRejected))
	})
	if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") ||
		!strings.Contains(lines[0], "why=failed reason=no") || !strings.Contains(lines[1], "level=INFO") {
		t.Errorf("turned back: %s", strings.Join(lines, "\n"))
	}
	lines = logged(t, func(y *counters) {
		for i := range 1_000 {
			y.Alarms(one(i), []plan.Action{{Verb: plan.Alarm, Step: "pay", Stuck: true, Reason: "no"}})
		}
		y.Alarms(one(1), []plan.Action{{Verb: plan.Alarm, Reason: "its deadline has passed"}})
		if n := y.Health(0).Alarms; n != 1_001 {
			t.Errorf("%d alarms were counted", n)
		}
	})
	if len(lines) != eachStuck+1 || !strings.Contains(lines[1], "saga: stuck; see: skald saga explain") ||
		!strings.Contains(lines[eachStuck], "continues") {
		t.Errorf("stuck: %s", strings.Join(lines, "\n"))
	}
}

// TestPanickedLogsTheStackOnce checks that a panic is logged once, with a line for each frame of its stack.
func TestPanickedLogsTheStackOnce(t *testing.T) {
	lines := logged(t, func(y *counters) {
		for i := range 100 {
			var err error
			func() {
				defer failure.Recover(&err)
				panic(fmt.Sprint("row ", i))
			}()
			y.Panicked("order", fmt.Errorf("step: %w", err))
		}
		y.Panicked("order", errors.New("no panic"))
	})
	if len(lines) > 16 || strings.Count(fmt.Sprint(lines), "frame=0 ") != 1 ||
		!strings.Contains(lines[0], "log_test.go") {
		t.Errorf("logged: %s", strings.Join(lines, "\n"))
	}
}
