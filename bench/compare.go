package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A comparison is contenders that do the same work, and the bars that are set for them.
type comparison struct {
	name, title string
	kafka       bool              // it needs one
	there       func(*bench) bool // the server that it needs is; nil: none but PostgreSQL
	bars        []bar

	// One of these: contenders that take turns, or a course of events that hands over its results.
	set    func(ctx context.Context, b *bench) ([]contender, error)
	script func(ctx context.Context, b *bench, each func(Result)) error
}

// A contender takes its turns interleaved with the others.
type contender struct {
	name  string
	ready func(ctx context.Context) error // before each turn, not measured; nil: nothing to do
	turn  func(ctx context.Context, m *meter) error
}

// A bar is a ratio of contenders, or a figure of one.
type bar struct {
	what  string
	of    string
	to    []string // the best of these; none: the figure itself
	value func(Result) float64
	least float64
	most  float64 // 0: least is meant
	added bool    // what it is more than the others, not how many times as much
}

func perSecond(r Result) float64 { return r.PerSecond }
func p50(r Result) float64       { return r.P50 }
func p99(r Result) float64       { return r.P99 }
func cost(r Result) float64      { return 1e6 / r.PerSecond } // microseconds per unit
func cpu(r Result) float64       { return r.ClientCPU + r.PgCPU }

func extra(name string) func(Result) float64 {
	return func(r Result) float64 { return r.Extra[name] }
}

// play runs c and prints its table.
func (b *bench) play(ctx context.Context, c comparison) (err error) {
	defer func() { err = errors.Join(err, b.tidy()) }()
	fmt.Fprintf(b.out, "\n## %s: %s\n", c.name, c.title)
	var names []string
	all := map[string][]Result{}
	each := func(r Result) {
		if all[r.Name] == nil {
			names = append(names, r.Name)
		}
		all[r.Name] = append(all[r.Name], r)
		b.emit(r)
	}
	if c.script != nil {
		err = c.script(ctx, b, each)
	} else {
		err = b.turns(ctx, c, each)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	b.table(names, all)
	b.verdicts(c.bars, all)
	return nil
}

// turns lets the contenders of c take theirs.
func (b *bench) turns(ctx context.Context, c comparison, each func(Result)) error {
	cs, err := c.set(ctx, b)
	if err != nil {
		return err
	}
	for rep := range b.reps {
		order := slices.Clone(cs)
		if rep%2 == 1 {
			slices.Reverse(order) // so that what goes first is not always the same
		}
		for _, one := range order {
			if !b.contenders.MatchString(one.name) {
				continue
			}
			m := &meter{b: b, r: Result{Comparison: c.name, Name: one.name, Rep: rep}}
			if err := b.take(ctx, one, m); err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			each(m.r)
		}
	}
	return nil
}

func (b *bench) take(ctx context.Context, one contender, m *meter) error {
	if one.ready != nil {
		if err := one.ready(ctx); err != nil {
			return fmt.Errorf("make ready: %w", err)
		}
	}
	if _, err := b.probe.conn.Exec(ctx, "checkpoint"); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return one.turn(ctx, m)
}

func (b *bench) emit(r Result) {
	if b.json == nil {
		return
	}
	line, err := json.Marshal(r)
	if err == nil {
		_, err = b.json.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(b.errs, "write JSON:", err)
	}
}

func (b *bench) table(names []string, all map[string][]Result) {
	fmt.Fprintf(b.out,
		"\n| contender | per second (min–max) | p50 ms | p99 ms | CPU µs each, client + %s | WAL B | idle %% | foreign %% |\n", b.second)
	fmt.Fprintln(b.out, "|---|---|---|---|---|---|---|---|")
	for _, name := range names {
		rs := all[name]
		rate, least, most := spread(rs, perSecond)
		of := func(value func(Result) float64) float64 { mid, _, _ := spread(rs, value); return mid }
		_, _, strange := spread(rs, func(r Result) float64 { return r.Foreign })
		fmt.Fprintf(b.out, "| %s | %s (%s–%s) | %.2f | %.2f | %.1f + %.1f | %.0f | %.0f | ≤ %.0f |\n", name,
			figure(rate), figure(least), figure(most),
			of(p50), of(p99), of(func(r Result) float64 { return r.ClientCPU }),
			of(func(r Result) float64 { return r.PgCPU }),
			of(func(r Result) float64 { return r.WALPerOp }), of(func(r Result) float64 { return r.Idle }),
			strange)
	}
}

func spread(rs []Result, value func(Result) float64) (mid, least, most float64) {
	xs := make([]float64, len(rs))
	for i, r := range rs {
		xs[i] = value(r)
	}
	return median(xs)
}

func (b *bench) verdicts(bars []bar, all map[string][]Result) {
	lines := 0
	for _, bar := range bars {
		xs := bar.figures(all)
		if len(xs) == 0 {
			continue
		}
		if lines++; lines == 1 {
			fmt.Fprintln(b.out, "\n| figure | median (min–max) | bar | |\n|---|---|---|---|")
		}
		mid, least, most := median(xs)
		fmt.Fprintf(b.out, "| %s | %s (%s–%s) | %s | %s |\n", bar.what, figure(mid), figure(least),
			figure(most), bar.text(), bar.verdict(mid))
	}
}

// figures is one figure for each repetition. Where the sides had different numbers of turns, the other side
// counts by its median.
func (bar bar) figures(all map[string][]Result) (out []float64) {
	for i, r := range all[bar.of] {
		x := bar.value(r)
		if len(bar.to) == 0 {
			out = append(out, x)
			continue
		}
		best := 0.0
		for _, name := range bar.to {
			rivals := all[name]
			switch {
			case len(rivals) == 0:
			case len(rivals) == len(all[bar.of]):
				best = max(best, bar.value(rivals[i]))
			default:
				mid, _, _ := spread(rivals, bar.value)
				best = max(best, mid)
			}
		}
		switch {
		case best > 0 && bar.added:
			out = append(out, x-best)
		case best > 0:
			out = append(out, x/best)
		}
	}
	return out
}

func (bar bar) text() string {
	switch {
	case bar.most > 0:
		return "≤ " + figure(bar.most)
	case bar.least > 0:
		return "≥ " + figure(bar.least)
	}
	return "none"
}

func (bar bar) verdict(x float64) string {
	switch {
	case bar.most == 0 && bar.least == 0:
		return ""
	case bar.most > 0 && x <= bar.most, bar.most == 0 && x >= bar.least:
		return "met"
	}
	return "**missed**"
}

// figure writes x with as many digits as mean something.
func figure(x float64) string {
	if x < 1000 {
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3g", x), " "), ".")
	}
	s := fmt.Sprintf("%.0f", x)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
