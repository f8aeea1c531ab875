package logonce

import (
	"log/slog"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/store"
)

func newAnnouncer(log *strings.Builder) *Announcer {
	return New(Config{Group: "stock", Topics: func() []string { return []string{"orders"} },
		Handled: func() []store.Kind { return []store.Kind{{Topic: "orders", Type: "order.placed"}} },
		Log:     slog.New(slog.NewTextHandler(log, nil))})
}

// A type is told of once: louder where it looks like one that is handled.
func TestTypesAreToldOnce(t *testing.T) {
	var log strings.Builder
	a := newAnnouncer(&log)
	for range 3 {
		a.Skipped(store.Kind{Topic: "orders", Type: "order.plcaed"})
		a.Skipped(store.Kind{Topic: "orders", Type: "paid"})
		a.Left(store.Kind{Topic: "orders", Type: "order.cancelled"})
	}
	for text, want := range map[string]int{"handled=order.placed": 1, "type=paid": 1, "order.cancelled": 1, "level=WARN": 1} {
		if n := strings.Count(log.String(), text); n != want {
			t.Errorf("%s is there %d times, want %d: %s", text, n, want, &log)
		}
	}
}

// The stack of a panic is told once for all with its fingerprint, from where it panicked on.
func TestPanicIsToldOnce(t *testing.T) {
	var log strings.Builder
	a := newAnnouncer(&log)
	err := &failure.PanicError{Value: "no map", Stack: debug.Stack()}
	for range 2 {
		a.Panic(t.Context(), "m-1", "print", err)
	}
	if n := strings.Count(log.String(), "frame=0 "); n != 1 || !strings.Contains(log.String(), "logonce_test.go") {
		t.Errorf("told %d times: %s", n, &log)
	}
}

// That the consumer is ready is told once, when a look at the broker brings no more partitions.
func TestReadyIsToldOnce(t *testing.T) {
	var log strings.Builder
	a := newAnnouncer(&log)
	a.Ready(0, broker.Batch{})
	a.Ready(1, broker.Batch{Gained: []broker.Partition{{Name: "orders/1"}}})
	if log.Len() > 0 {
		t.Errorf("told too early: %s", &log)
	}
	a.Ready(2, broker.Batch{})
	a.Ready(2, broker.Batch{})
	if n := strings.Count(log.String(), "partitions=2"); n != 1 {
		t.Errorf("told %d times: %s", n, &log)
	}
}

// Edits are letters that are inserted, dropped or replaced.
func TestEdits(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"said", "said", 0}, {"said", "sait", 1}, {"said", "siad", 2}, {"said", "sa", 2}, {"said", "shouted", nearly + 1}} {
		if got := edits(c.a, c.b); got != c.want {
			t.Errorf("from %s to %s it is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
