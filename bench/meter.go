package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Result is one measurement: a line of the JSON file.
type Result struct {
	Comparison  string  `json:"comparison"`
	Name        string  `json:"name"`
	Rep         int     `json:"rep"`
	N           int     `json:"n"`
	Concurrency int     `json:"concurrency"`
	Seconds     float64 `json:"seconds"`
	PerSecond   float64 `json:"per_second"`
	P50         float64 `json:"p50_ms"`
	P99         float64 `json:"p99_ms"`
	// Per unit of work: processor time of this process and of the PostgreSQL cluster (or of the server that a
	// comparison is about), transactions and WAL.
	ClientCPU float64 `json:"client_cpu_us_per_op"`
	PgCPU     float64 `json:"pg_cpu_us_per_op"`
	TxPerOp   float64 `json:"write_tx_per_op"`
	WALPerOp  float64 `json:"wal_bytes_per_op"`
	// Of all processors meanwhile, in percent. Where foreign is high the figure is worth little.
	Idle    float64            `json:"idle_pct"`
	Foreign float64            `json:"foreign_pct"`
	Extra   map[string]float64 `json:"extra,omitempty"`
	Note    string             `json:"note,omitempty"`
}

// A meter measures one turn of a contender.
type meter struct {
	b   *bench
	r   Result
	a   snap
	lat []time.Duration

	profile *os.File
}

// begin starts the clock. What a turn did before is not measured.
func (m *meter) begin(ctx context.Context) error {
	m.b.probe.quiet(ctx, m.b.quiet)
	runtime.GC()
	if m.b.profiles != "" {
		name := fmt.Sprintf("%s_%s_%d.pprof", m.r.Comparison, m.r.Name, m.r.Rep)
		f, err := os.Create(filepath.Join(m.b.profiles,
			strings.NewReplacer(" ", "-", "/", "-", ",", "").Replace(name)))
		if err != nil {
			return fmt.Errorf("make profile: %w", err)
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return fmt.Errorf("start profile: %w", err)
		}
		m.profile = f
	}
	m.a = m.b.probe.snap(ctx)
	return nil
}

// end stops the clock behind n units of work.
func (m *meter) end(ctx context.Context, n int) {
	m.endAt(ctx, n, time.Now())
}

// endAt is end for work that was over at a moment of its own.
func (m *meter) endAt(ctx context.Context, n int, at time.Time) {
	m.endWith(m.b.probe.snap(ctx), n, at)
}

// endWith is endAt for what had been used up to a moment that is past.
func (m *meter) endWith(b snap, n int, at time.Time) {
	if m.profile != nil {
		pprof.StopCPUProfile()
		_ = m.profile.Close()
		m.profile = nil
	}
	m.r.N, m.r.Seconds = n, at.Sub(m.a.at).Seconds()
	m.r.spent(m.a, b)
	m.r.latencies(m.lat)
}

func (r *Result) spent(a, b snap) {
	if r.Seconds > 0 {
		r.PerSecond = float64(r.N) / r.Seconds
	}
	if n := float64(r.N); n > 0 {
		r.TxPerOp, r.WALPerOp = float64(b.xid-a.xid)/n, float64(b.lsn-a.lsn)/n
		r.ClientCPU, r.PgCPU = (b.own-a.own)/n, (b.pg-a.pg)/n
	}
	if total := b.busy - a.busy + b.idle - a.idle; total > 0 {
		r.Idle = 100 * (b.idle - a.idle) / total
	}
	r.Foreign = foreign(a, b)
}

func (r *Result) latencies(lat []time.Duration) {
	slices.Sort(lat)
	r.P50, r.P99 = quantile(lat, .5), quantile(lat, .99)
}

// quantile is in milliseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[int(q*float64(len(sorted)-1))].Nanoseconds()) / 1e6
}

const warm = 300 * time.Millisecond

// loop runs op from many clients, each as fast as it is answered, for the time of a measurement. unit is how
// many units of work one op does.
func (m *meter) loop(ctx context.Context, clients, unit int,
	op func(ctx context.Context, client int) error) error {
	m.r.Concurrency = clients
	if _, err := m.spin(ctx, clients, warm, op); err != nil { // statements get prepared
		return err
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	lats, err := m.spin(ctx, clients, m.b.dur, op)
	for _, l := range lats {
		m.lat = append(m.lat, l...)
	}
	m.end(ctx, len(m.lat)*unit)
	return err
}

func (m *meter) spin(ctx context.Context, clients int, d time.Duration,
	op func(context.Context, int) error) ([][]time.Duration, error) {
	lats := make([][]time.Duration, clients)
	var first atomic.Pointer[error]
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for w := range clients {
		wg.Go(func() {
			for {
				t := time.Now()
				if t.After(end) || first.Load() != nil {
					return
				}
				if err := op(ctx, w); err != nil {
					first.CompareAndSwap(nil, &err)
					return
				}
				lats[w] = append(lats[w], time.Since(t))
			}
		})
	}
	wg.Wait()
	if err := first.Load(); err != nil {
		return lats, *err
	}
	return lats, ctx.Err()
}

// drain repeats step until it finds nothing, or for as long as a drain may take.
func (m *meter) drain(ctx context.Context, step func(ctx context.Context) (int, error)) error {
	m.r.Concurrency = 1
	if err := m.begin(ctx); err != nil {
		return err
	}
	total := 0
	for time.Since(m.a.at) < m.b.limit {
		t := time.Now()
		n, err := step(ctx)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		m.lat = append(m.lat, time.Since(t))
		total += n
	}
	m.end(ctx, total)
	m.r.Note = "p50 and p99 are per batch"
	return nil
}

// median, least and most of xs, which it sorts.
func median(xs []float64) (mid, least, most float64) {
	if len(xs) == 0 {
		return 0, 0, 0
	}
	slices.SortFunc(xs, cmp.Compare)
	mid = xs[len(xs)/2]
	if len(xs)%2 == 0 {
		mid = (mid + xs[len(xs)/2-1]) / 2
	}
	return mid, xs[0], xs[len(xs)-1]
}
