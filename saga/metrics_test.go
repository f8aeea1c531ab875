package saga_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/memstore"
)

// TestMetrics: each stored transition is counted once.
func TestMetrics(t *testing.T) {
	reader := metric.NewManualReader()
	db, d := memstore.New(nil), trips()
	e, err := saga.NewEngine(db,
		&saga.EngineOptions{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))}, d)
	if err != nil {
		t.Fatal(err)
	}
	running(t, e)
	begin(t, db, e, d, trip{ID: "good", Fail: map[string]string{"hotel": "once"}})
	begin(t, db, e, d, trip{ID: "good", Fail: map[string]string{"hotel": "once"}}) // it starts nothing
	begin(t, db, e, d, trip{ID: "bad", Fail: map[string]string{"car": "reject", "undo flight": "once"}})
	await(t, e, d, "good")
	await(t, e, d, "bad")
	got := measured(t, reader)
	want := map[string]int64{
		"skald.saga.started trip": 2, "skald.saga.ended done trip": 1, "skald.saga.ended compensated trip": 1,
		"skald.saga.duration":                    2,
		"skald.saga.step.ended done trip flight": 2, "skald.saga.step.ended done trip hotel": 2,
		"skald.saga.step.ended done trip car":    1,
		"skald.saga.step.ended refused trip car": 1, "skald.saga.step.ended undone trip flight": 1,
		"skald.saga.step.ended undone trip hotel": 1,
		"skald.saga.step.failed trip hotel":       1, "skald.saga.step.failed trip flight": 1,
		"skald.saga.step.duration": 8,
	}
	if !maps.Equal(got, want) {
		for _, k := range slices.Sorted(maps.Keys(got)) {
			fmt.Fprintln(t.Output(), k, got[k])
		}
		t.Errorf("the counts are not %v", want)
	}
}

// measured returns the counts that are not 0, by name and labels; for a histogram, the number of values.
func measured(t *testing.T, reader *metric.ManualReader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if counts, ok := m.Data.(metricdata.Sum[int64]); ok {
			for _, p := range counts.DataPoints {
				var labels []string
				for _, l := range p.Attributes.ToSlice() {
					labels = append(labels, l.Value.AsString())
				}
				if p.Value > 0 { // the others exist from the start
					got[strings.TrimSpace(m.Name+" "+strings.Join(labels, " "))] = p.Value
				}
			}
		}
		if times, ok := m.Data.(metricdata.Histogram[float64]); ok {
			for _, p := range times.DataPoints {
				got[m.Name] += int64(p.Count)
			}
		}
	}
	return got
}
