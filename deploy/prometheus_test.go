package deploy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

const scrapeEvery = 15 * time.Second

// A prom is Prometheus in small: it scrapes what the processes export and evaluates the rules with
// Prometheus' own engine. Its time is its own: between two scrapes it lets 15 s pass, however long they
// really take.
type prom struct {
	t      *testing.T
	now    time.Time
	engine *promql.Engine
	rules  []rulefmt.Rule
	series map[string]*series         // by labels
	fresh  map[string]map[string]bool // by target: the series of its last scrape
	since  map[string]time.Time       // by alert: true since then, without a gap
}

type series struct {
	labels labels.Labels
	points []chunks.Sample
}

func parserOf() parser.Parser { return parser.NewParser(parser.Options{}) }

func newProm(t *testing.T) *prom {
	t.Helper()
	groups, errs := rulefmt.ParseFile("prometheus/skald.rules.yml", false, model.LegacyValidation, parserOf(),
		slog.Default())
	if len(errs) > 0 {
		t.Fatal(errors.Join(errs...))
	}
	p := &prom{
		t: t, now: time.Unix(1_800_000_000, 0), series: map[string]*series{},
		fresh: map[string]map[string]bool{}, since: map[string]time.Time{},
		engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: 5 * time.Minute,
			Parser: parserOf()}),
	}
	for _, g := range groups.Groups {
		p.rules = append(p.rules, g.Rules...)
	}
	return p
}

// scrape takes one exposition of a target; nil: the target is gone. What it does not export any more is
// stale.
func (p *prom) scrape(target string, families []*dto.MetricFamily) {
	p.t.Helper()
	var text bytes.Buffer
	enc := expfmt.NewEncoder(&text, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			p.t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	read := textparse.NewPromParser(text.Bytes(), labels.NewSymbolTable(), false)
	for {
		kind, err := read.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.t.Fatalf("scrape %s: %v\n%s", target, err, text.String())
		}
		if kind != textparse.EntrySeries {
			continue
		}
		var of labels.Labels
		read.Labels(&of)
		_, _, v := read.Series()
		of = labels.NewBuilder(of).Set("instance", target).Labels()
		p.add(of, v)
		seen[of.String()] = true
	}
	for was := range p.fresh[target] {
		if !seen[was] {
			p.add(p.series[was].labels, math.Float64frombits(value.StaleNaN))
		}
	}
	p.fresh[target] = seen
}

func (p *prom) add(of labels.Labels, v float64) {
	key := of.String()
	if p.series[key] == nil {
		p.series[key] = &series{labels: of}
	}
	p.series[key].points = append(p.series[key].points, point{p.now.UnixMilli(), v})
}

// evaluate says which alerts are firing now, as Prometheus does: the expression has had a result at every
// evaluation for as long as "for" says.
func (p *prom) evaluate() map[string]bool {
	p.t.Helper()
	firing := map[string]bool{}
	for _, r := range p.rules {
		if len(p.query(r.Expr)) == 0 {
			delete(p.since, r.Alert)
			continue
		}
		if _, ok := p.since[r.Alert]; !ok {
			p.since[r.Alert] = p.now
		}
		if p.now.Sub(p.since[r.Alert]) >= time.Duration(r.For) {
			firing[r.Alert] = true
		}
	}
	return firing
}

func (p *prom) query(expr string) promql.Vector {
	p.t.Helper()
	q, err := p.engine.NewInstantQuery(context.Background(), p, nil, expr, p.now)
	if err != nil {
		p.t.Fatalf("%s: %v", expr, err)
	}
	defer q.Close()
	got, err := q.Exec(context.Background()).Vector()
	if err != nil {
		p.t.Fatalf("%s: %v", expr, err)
	}
	return append(promql.Vector(nil), got...)
}

// Querier makes p a storage.
func (p *prom) Querier(int64, int64) (storage.Querier, error) { return querier{p}, nil }

type querier struct{ p *prom }

var _ storage.Querier = querier{}

func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints,
	ms ...*labels.Matcher) storage.SeriesSet {
	found := &found{}
	for _, s := range q.p.series {
		if matches(s.labels, ms) {
			found.all = append(found.all, storage.NewListSeries(s.labels, s.points))
		}
	}
	return found
}

func matches(of labels.Labels, ms []*labels.Matcher) bool {
	for _, m := range ms {
		if !m.Matches(of.Get(m.Name)) {
			return false
		}
	}
	return true
}

func (querier) LabelValues(context.Context, string, *storage.LabelHints,
	...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

func (querier) LabelNames(context.Context, *storage.LabelHints,
	...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

func (querier) Close() error { return nil }

// found is a list of series.
type found struct {
	all []storage.Series
	at  storage.Series
}

func (f *found) Next() bool {
	if len(f.all) == 0 {
		return false
	}
	f.at, f.all = f.all[0], f.all[1:]
	return true
}

func (f *found) At() storage.Series                { return f.at }
func (f *found) Err() error                        { return nil }
func (f *found) Warnings() annotations.Annotations { return nil }

// point is one value of a series.
type point struct {
	t int64
	v float64
}

func (p point) T() int64                      { return p.t }
func (p point) ST() int64                     { return 0 }
func (p point) F() float64                    { return p.v }
func (p point) H() *histogram.Histogram       { return nil }
func (p point) FH() *histogram.FloatHistogram { return nil }
func (p point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p point) Copy() chunks.Sample           { return p }

// metricsIn are the metrics that an expression asks for.
func metricsIn(t *testing.T, expr string) (names []string) {
	t.Helper()
	parsed, err := parserOf().ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			names = append(names, v.Name)
		}
		return nil
	})
	return names
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
