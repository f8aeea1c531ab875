package inbox

import (
	"context"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

func newAnnouncer(log *strings.Builder) *announcer[*memstore.Tx] {
	in := New[*memstore.Tx](memstore.New(nil), membroker.New(nil), "stock",
		&Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	in.Handle("orders", "order.placed",
		func(context.Context, *memstore.Tx, skald.Message) error { return nil })
	return in.announce
}

// A type is logged once, as a warning if it looks like a misspelt one.
func TestTypesAreLoggedOnce(t *testing.T) {
	var log strings.Builder
	a := newAnnouncer(&log)
	for range 3 {
		a.Skipped(store.Kind{Topic: "orders", Type: "order.plcaed"})
		a.Skipped(store.Kind{Topic: "orders", Type: "paid"})
		a.ForOtherBuild(store.Kind{Topic: "orders", Type: "order.cancelled"})
	}
	for text, want := range map[string]int{"handled=order.placed": 1, "type=paid": 1, "order.cancelled": 1,
		"level=WARN": 1} {
		if n := strings.Count(log.String(), text); n != want {
			t.Errorf("%s is there %d times, want %d: %s", text, n, want, &log)
		}
	}
}

// panicking panics and recovers, far below the frames that recover the panic.
func panicking(depth int) (err error) {
	defer failure.Recover(&err)
	indexing(depth, nil)
	return nil
}

func indexing(depth int, none []int) {
	defer func() {
		if p := recover(); p != nil {
			panic(p) // the frames of the first panic are below this one
		}
	}()
	if depth > 0 {
		indexing(depth-1, none)
	}
	none[depth]++
}

// The stack of a panic is logged once for each fingerprint, from the function that panicked on.
func TestPanicIsLoggedOnce(t *testing.T) {
	for _, depth := range []int{0, 20} {
		var log strings.Builder
		a := newAnnouncer(&log)
		err := panicking(depth)
		for range 2 {
			a.Panic(t.Context(), "m-1", "print", err)
		}
		first := regexp.MustCompile(`frame=0 at=".*inbox\.indexing\(.*logonce_test\.go:\d+"`).FindAllString(
			log.String(), -1)
		if len(first) != 1 || strings.Count(log.String(), "\n") > 16 {
			t.Errorf("depth %d: logged %d times: %s", depth, len(first), &log)
		}
	}
}

// The inbox logs once that it is ready, when a batch of the broker gains no more partitions.
func TestReadyIsLoggedOnce(t *testing.T) {
	var log strings.Builder
	a := newAnnouncer(&log)
	a.Ready(0, broker.Batch{})
	a.Ready(1, broker.Batch{Gained: []broker.Partition{{Name: "orders/1"}}})
	if log.Len() > 0 {
		t.Errorf("logged too early: %s", &log)
	}
	a.Ready(2, broker.Batch{})
	a.Ready(2, broker.Batch{})
	if n := strings.Count(log.String(), "partitions=2"); n != 1 {
		t.Errorf("logged %d times: %s", n, &log)
	}
}

// Edits are inserted, deleted or replaced letters.
func TestEdits(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"said", "said", 0}, {"said", "sait", 1}, {"said", "siad", 2}, {"said", "sa", 2},
		{"said", "shouted", nearly + 1}} {
		if got := edits(c.a, c.b); got != c.want {
			t.Errorf("from %s to %s it is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
