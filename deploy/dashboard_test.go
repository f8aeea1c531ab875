package deploy

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/skald-go/skald/internal/telemetry"
)

type dashboard struct {
	Templating struct {
		List []struct {
			Query json.RawMessage
		}
	}
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

// grafana fills in what Grafana would.
func grafana(expr string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$source", ".*", "$consumer", ".*").Replace(expr)
}

// exported is what three processes export that have all done something, and what Prometheus makes of it.
func exported(t *testing.T) (*world, map[string]bool) {
	t.Helper()
	w := newWorld(t)
	w.startSaga()
	w.track("placed")
	w.reserve("one", time.Hour)
	for range 3 {
		w.pass(30 * time.Second)
		w.serve()
		handled := w.consumer.Health().Handled
		w.say("orders", 0)
		w.until("it is handled",
			func() bool { return w.consumer.Health().Handled > handled && w.backlog().Pending == 0 })
	}
	w.pass(30 * time.Second)
	seen := map[string]bool{}
	for _, s := range w.prom.series {
		if name := s.labels.Get(model.MetricNameLabel); strings.HasPrefix(name, "skald_") {
			seen[name] = true
		}
	}
	return w, seen
}

// Every metric that rules and dashboard name is exported, and every panel shows something.
func TestEveryMetricOfRulesAndDashboardExists(t *testing.T) {
	w, exists := exported(t)
	wants := func(where, expr string) {
		for _, name := range metricsIn(t, expr) {
			if !exists[name] {
				t.Errorf("%s asks for %s, which nothing exports", where, name)
			}
		}
	}
	for _, r := range w.prom.rules {
		wants(r.Alert, r.Expr)
	}
	var d dashboard
	if err := json.Unmarshal(readFile(t, "grafana/skald.json"), &d); err != nil {
		t.Fatal(err)
	}
	for _, v := range d.Templating.List {
		for _, m := range regexp.MustCompile(`label_values\((\w+),`).FindAllStringSubmatch(string(v.Query),
			-1) {
			wants("a variable", m[1])
		}
	}
	shown := map[string]bool{}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			expr := grafana(target.Expr)
			wants("panel "+p.Title, expr)
			if len(w.prom.query(expr)) == 0 {
				t.Errorf("panel %s shows nothing: %s", p.Title, expr)
			}
			for _, name := range metricsIn(t, expr) {
				shown[strings.TrimSuffix(name, "_bucket")] = true
			}
		}
	}
	for name := range exists {
		family := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"),
			"_count")
		if !shown[family] {
			t.Errorf("%s is on no panel", family)
		}
	}
	if got, want := families(exists), len(telemetry.Metrics()); got != want {
		t.Errorf("%d metrics are exported, the code has %d: %v", got, want, slices.Sorted(maps.Keys(exists)))
	}
}

func families(names map[string]bool) int {
	all := map[string]bool{}
	for name := range names {
		all[strings.TrimSuffix(strings.TrimSuffix(
			strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")] = true
	}
	return len(all)
}

// Each metric is explained.
func TestEveryMetricIsInTheDocs(t *testing.T) {
	page := string(readFile(t, "../docs/metrics.md"))
	for _, m := range telemetry.Metrics() {
		if !strings.Contains(page, "`"+m.Name+"`") {
			t.Errorf("docs/metrics.md does not say what %s is", m.Name)
		}
	}
}
