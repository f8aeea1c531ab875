//go:build !nodemo

package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/skald-go/skald/cmd/skald/internal/demo"
)

// ticker prints the progress of a run to standard error. On a terminal it repaints one line. Elsewhere it
// prints a line every 5 s.
type ticker struct {
	out             io.Writer
	terminal, quiet bool

	mu      sync.Mutex
	painted bool
	last    time.Time
}

const repaint = 100 * time.Millisecond

func (t *ticker) begin(o demo.Options) {
	t.last = time.Now()
	if folder, ok := strings.CutPrefix(o.Store, "sqlite:"); ok {
		t.note("databases in %s", folder)
	}
}

// note prints a separate line.
func (t *ticker) note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.quiet {
		return
	}
	t.wipe()
	fmt.Fprintf(t.out, format+"\n", args...)
}

func (t *ticker) progress(p demo.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	every := 5 * time.Second
	if t.terminal {
		every = repaint
	}
	if t.quiet || time.Since(t.last) < every {
		return
	}
	t.last = time.Now()
	line := fmt.Sprintf("%d of %d orders ended, %d messages written, %d handled", p.Confirmed+p.Cancelled,
		p.Orders, p.Written, p.Handled)
	if !t.terminal {
		fmt.Fprintln(t.out, line)
		return
	}
	fmt.Fprintf(t.out, "\r\x1b[K%s", line)
	t.painted = true
}

// wipe clears the repainted line.
func (t *ticker) wipe() {
	if t.painted {
		fmt.Fprint(t.out, "\r\x1b[K")
		t.painted = false
	}
}

func (t *ticker) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wipe()
}

// logger returns the logger of the services.
func logger(errs io.Writer, verbose bool) *slog.Logger {
	if !verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(errs, nil))
}

// briefStory is the number of lines of a story that a report shows without --verbose.
const briefStory = 20

// printReport prints the report r: the numbers, the promises, the story of one order, and commands to try
// next.
func printReport(out io.Writer, r *demo.Report, o demo.Options, verbose bool) error {
	w := bufio.NewWriter(out)
	if r.Again {
		fmt.Fprintln(w, "This run had ended before; the auditor has read the databases once more.")
	}
	if err := tellNumbers(w, r, verbose); err != nil {
		return err
	}
	if len(r.Story) > 0 {
		fmt.Fprintf(w, "\nThe story of %s\n", r.Story[0])
		lines, more := r.Story[1:], 0
		if !verbose && len(lines) > briefStory {
			lines, more = lines[:briefStory], len(lines)-briefStory
		}
		for _, line := range lines {
			fmt.Fprintln(w, line)
		}
		if more > 0 {
			fmt.Fprintf(w, "  … and %d lines more: --verbose, or %s\n", more,
				commandLine(self()+" demo show ORDER", o, r.Store))
		}
	}
	fmt.Fprintf(w, "\n%s\nTo remove everything that the demo created: %s\n\nNext:\n", r.Remains,
		commandLine(self()+" demo remove", o, r.Store))
	for _, next := range nexts(r, o) {
		fmt.Fprintln(w, "  "+next)
	}
	return w.Flush()
}

func tellNumbers(out io.Writer, r *demo.Report, verbose bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	m := r.Messages
	fmt.Fprintf(w, "orders\t%d placed, %d confirmed, %d cancelled\n", r.Orders.Placed, r.Orders.Confirmed,
		r.Orders.Cancelled)
	fmt.Fprintf(w, "messages\t%d written, %d published, %d delivered, %d duplicates dropped, %d handled\n",
		m.Written, m.Published, m.Delivered, m.Duplicates, m.Handled)
	fmt.Fprintf(w,
		"of these\t%d rejected, %d barred, %d parked, %d dead: %d redriven, %d dropped; %d calls unknown for a while, and settled\n",
		m.Rejected, m.Barred, m.Parked, m.Dead, m.Redriven, m.Dropped, m.UnknownSettled)
	if s := r.Sagas; s != nil {
		fmt.Fprintf(w, "sagas\t%d started, %d done, %d compensated, %d stuck\n", s.Started, s.Done,
			s.Compensated, s.Stuck)
	}
	if c := r.Cache; c != nil {
		fmt.Fprintf(w, "redis\t%d keys found, %d missing, %d skipped because Redis was down or slow\n", c.Hits,
			c.Misses, c.Unasked)
	}
	fmt.Fprintf(w, "faults\t%s\n", faults(r.Faults, verbose))
	fmt.Fprintf(w, "seconds\t%.1f\n\n", r.Seconds)
	for _, i := range r.Invariants {
		verdict, detail := "ok", i.Detail
		if !i.OK {
			verdict = "BROKEN"
			if !verbose {
				detail = i.Brief()
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", i.Name, verdict, detail)
	}
	verdict := "All promises are kept."
	if !r.OK {
		verdict = "Promises are BROKEN."
	}
	fmt.Fprintf(w, "\n%s\n", verdict)
	return w.Flush()
}

// commonFaults is the number of kinds of faults that a report shows without --verbose.
const commonFaults = 4

// faults lists the kinds of faults with their counts, the most frequent first.
func faults(counts map[string]int64, verbose bool) string {
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	words := make([]string, len(kinds))
	for i, kind := range kinds {
		words[i] = fmt.Sprintf("%d %s", counts[kind], kind)
	}
	if !verbose && len(words) > commonFaults+1 {
		words = append(words[:commonFaults], fmt.Sprintf("and %d kinds more", len(words)-commonFaults))
	}
	return cmp.Or(strings.Join(words, ", "), "none")
}

// nexts returns three commands to try next.
func nexts(r *demo.Report, o demo.Options) []string {
	audit := "go run ./examples/shop audit --store " + r.Store
	if !strings.HasPrefix(r.Store, "sqlite:") {
		audit += " --prefix " + o.Prefix
	}
	out := []string{commandLine(self()+" demo", o, r.Store) + "   # the verdict again, from the databases",
		audit + "   # the auditor alone"}
	if o.Sabotage == "" {
		return append(out,
			self()+" demo --sabotage no-mark   # the same load without the mark")
	}
	return append(out, self()+" demo   # the same load with all safeguards")
}
