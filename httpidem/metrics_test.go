package httpidem_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/once"
)

// counts returns the outcomes in reader, with the number of each, from a counter and its histogram.
func counts(t *testing.T, reader metric.Reader) (out []string) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	timed := map[string]uint64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				outcome, _ := p.Attributes.Value("outcome")
				if p.Value > 0 {
					out = append(out, fmt.Sprint(outcome.AsString(), " ", p.Value))
				}
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				outcome, _ := p.Attributes.Value("outcome")
				timed[outcome.AsString()] = p.Count
			}
		}
	}
	slices.Sort(out)
	for _, one := range out {
		if outcome, n, _ := strings.Cut(one, " "); fmt.Sprint(timed[outcome]) != n {
			t.Errorf("%s: %d were timed", one, timed[outcome])
		}
	}
	return out
}

// The endpoint counts the outcome of each request, and measures its duration.
func TestMetrics(t *testing.T) {
	reader := metric.NewManualReader()
	o := quiet()
	o.MeterProvider, o.Wait, o.MaxBody = metric.NewMeterProvider(metric.WithReader(reader)), -1, 100
	g := inMemory(t)
	away := &awayStore{Driver: g.db}
	s := &shop[mem]{ground: &ground[mem]{away, g.note, g.list}}
	h := s.endpoint(o)
	send := func(key, body string) { post{key: key, body: body}.to(h) }
	for range 3 {
		send("a", `{"SKU":"tea"}`) // done, repeated twice
	}
	send("a", `{"SKU":"salt"}`)
	send("", `{}`)
	send("b", `{`)
	send("b", strings.Repeat(" ", 101))
	send("b", `{}`)
	away.begins = true
	send("c", `{}`)
	away.begins = false
	for i, answer := range []func() (httpidem.Reply[view], error){
		func() (httpidem.Reply[view], error) { return httpidem.Reply[view]{}, errors.New("no") },
		func() (httpidem.Reply[view], error) { return httpidem.Reply[view]{Code: 503}, nil },
		func() (httpidem.Reply[view],
			error) {
			return httpidem.Reply[view]{}, &httpidem.Problem{Status: 404}
		},
		func() (httpidem.Reply[view],
			error) {
			return httpidem.Reply[view]{}, httpidem.Refuse(402, "declined")
		},
		func() (httpidem.Reply[view], error) {
			return httpidem.OK(view{strings.Repeat("x", once.MaxResult)}), nil
		},
		func() (httpidem.Reply[view], error) {
			send(fmt.Sprint("d-", 5), `{}`) // while it is in hand
			return httpidem.OK(view{}), nil
		},
	} {
		s.answer = answer
		send(fmt.Sprint("d-", i), `{}`)
	}
	want := []string{"conflict 1", "done 3", "failed 1", "in_progress 1", "invalid 3", "outage 1",
		"refused 1", "repeated 2", "too_large 1", "undone 2"}
	if got := counts(t, reader); !slices.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

// A handler under Wrap that is paused for longer than its lease is counted, because its work may have been
// done twice.
func TestMetricsOvertaken(t *testing.T) {
	reader := metric.NewManualReader()
	o := quiet()
	o.MeterProvider, o.Lease = metric.NewMeterProvider(metric.WithReader(reader)), time.Nanosecond
	g := inMemory(t)
	p := post{key: "k"}
	other := wrapped(g.db, quiet(),
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	slow := wrapped(g.db, o, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.to(other) // the lease has ended
		w.WriteHeader(http.StatusCreated)
	}))
	if w := p.to(slow); w.Code != http.StatusAccepted {
		t.Errorf("%d, the other's answer stands", w.Code)
	}
	p.to(slow)
	if got, want := counts(t, reader), []string{"overtaken 1", "repeated 1"}; !slices.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}
