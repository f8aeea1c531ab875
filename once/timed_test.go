package once_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store/memstore"
)

// TestMetrics checks that the package counts the outcome of each call, with OpenTelemetry's global provider.
func TestMetrics(t *testing.T) {
	reader := metric.NewManualReader()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	db := memstore.New(nil)
	do := func(key, payload string, result any, err error) {
		_, _, _ = once.Do(t.Context(), db, "job", key, payload,
			func(context.Context, *memstore.Tx) (any, error) { return result, err })
	}
	do("a", "1", 1, nil)
	do("a", "1", 1, nil)
	do("a", "2", 1, nil)
	do("b", "1", nil, errors.New("not now"))
	do("c", "1", nil, skald.Reject(errors.New("no")))
	do("c", "1", nil, nil)
	do("d", "1", strings.Repeat("x", once.MaxResult), nil)
	do("", "1", 1, nil)
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	var got []string
	timed := uint64(0)
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				outcome, _ := p.Attributes.Value("outcome")
				got = append(got, fmt.Sprint(outcome.AsString(), " ", p.Value))
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				timed += p.Count
			}
		}
	}
	slices.Sort(got)
	want := []string{"conflict 1", "done 1", "failed 1", "refused 1", "repeated 2", "too_large 1", "undone 1"}
	if !slices.Equal(got, want) || timed != 8 {
		t.Errorf("counted %v, %d were timed, want %v", got, timed, want)
	}
}
