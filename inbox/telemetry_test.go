package inbox_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
)

// A failed message blocks its key, and is listed also while its handler runs again. Otherwise a slow
// handler that always fails would rarely be listed.
func TestStuckMessageIsListedWhileItIsRetried(t *testing.T) {
	w := newWorld(t, 1)
	var runs atomic.Int64
	again, goOn := make(chan struct{}), make(chan struct{})
	in := w.inbox(&inbox.Options{Retry: inbox.Retry{InitialInterval: time.Millisecond}},
		func(_ context.Context, _ tx, m skald.Received[string]) error {
			if string(m.Key) != "slow" {
				return nil
			}
			if runs.Add(1) == 2 {
				close(again)
				<-goOn
				return nil
			}
			return errors.New("no")
		})
	w.publish(w.message("slow", "1"))
	stop := run(t, in)
	until(t, "it failed", func() bool { return in.Health().Failures == 1 })
	w.pass(time.Minute)
	<-again
	w.publish(w.message("other", "1"))
	until(t, "the other message is handled", func() bool { return in.Health().Handled == 1 })
	until(t, "it is named while it is tried again", func() bool { return len(in.Health().Stuck) == 1 })
	close(goOn)
	until(t, "nothing is stuck",
		func() bool { h := in.Health(); return len(h.Stuck) == 0 && h.Unacknowledged == 0 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestInboxCountsResults(t *testing.T) {
	read := metric.NewManualReader()
	w := newWorld(t, 1)
	o := &inbox.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(read)),
		Retry: inbox.Retry{InitialInterval: time.Millisecond, MaxInterval: time.Millisecond}}
	var failed atomic.Bool
	in := w.inbox(o, func(_ context.Context, _ tx, m skald.Received[string]) error {
		switch {
		case m.Value == "no":
			return skald.Reject(errors.New("no"))
		case m.Value == "later" && failed.CompareAndSwap(false, true):
			return errors.New("not yet")
		}
		return nil
	})
	twice := w.message("a", "1")
	foreign := w.message("b", "1")
	foreign.Type = "other"
	w.publish(twice, twice, foreign, w.message("c", "no"), w.message("d", "later"))
	stop := run(t, in)
	want := map[string]int64{"processed": 2, "duplicate": 1, "skipped": 1, "rejected": 1, "failed": 1}
	var got map[string]int64
	until(t, "all is counted", func() bool {
		w.pass(10 * time.Millisecond) // so that no claim ends while its message runs
		got = outcomes(t, read)
		for outcome, n := range want {
			if got[outcome] < n {
				return false
			}
		}
		return true
	})
	for outcome, n := range got {
		if want[outcome] != n {
			t.Errorf("%s is counted %d times, want %d", outcome, n, want[outcome])
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func outcomes(t *testing.T, from metric.Reader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := from.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			if m.Name != "skald.inbox.message.received" {
				continue
			}
			for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
				outcome, _ := p.Attributes.Value(attribute.Key("outcome"))
				out[outcome.AsString()] += p.Value
			}
		}
	}
	return out
}
