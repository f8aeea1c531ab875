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

// A ticker says on standard error how far a run has come: on a terminal in one line that it repaints, else
// now and then.
type ticker struct {
	out             io.Writer
	terminal, quiet bool

	mu      sync.Mutex
	painted bool
	said    time.Time
}

const repaint = 100 * time.Millisecond

func (t *ticker) begin(o demo.Options) {
	t.said = time.Now()
	if folder, ok := strings.CutPrefix(o.Store, "sqlite:"); ok {
		t.note("databases in %s", folder)
	}
}

// note says a line of its own.
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
	if t.quiet || time.Since(t.said) < every {
		return
	}
	t.said = time.Now()
	line := fmt.Sprintf("%d of %d orders ended, %d messages written, %d handled", p.Confirmed+p.Cancelled,
		p.Orders, p.Written, p.Handled)
	if !t.terminal {
		fmt.Fprintln(t.out, line)
		return
	}
	fmt.Fprintf(t.out, "\r\x1b[K%s", line)
	t.painted = true
}

// wipe takes the repainted line away.
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

// logger is what the services log to.
func logger(errs io.Writer, verbose bool) *slog.Logger {
	if !verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(errs, nil))
}

// tell prints a report: the table, the story, what was made, and what to try next.
func tell(out io.Writer, r *demo.Report, o demo.Options) error {
	w := bufio.NewWriter(out)
	if r.Again {
		fmt.Fprintln(w, "This run had ended before; the auditor has read the databases once more.")
	}
	if err := tellNumbers(w, r); err != nil {
		return err
	}
	if len(r.Story) > 0 {
		fmt.Fprintf(w, "\nThe story of %s\n", r.Story[0])
		for _, line := range r.Story[1:] {
			fmt.Fprintln(w, line)
		}
	}
	fmt.Fprintf(w, "\n%s\nTo remove what was made: %s\n\nNext:\n", r.Remains,
		command(self()+" demo remove", o, r.Store))
	for _, next := range nexts(r, o) {
		fmt.Fprintln(w, "  "+next)
	}
	return w.Flush()
}

func tellNumbers(out io.Writer, r *demo.Report) error {
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
		fmt.Fprintf(w, "redis\t%d keys found, %d not, %d not asked for because it was away or slow\n", c.Hits,
			c.Misses, c.Unasked)
	}
	fmt.Fprintf(w, "faults\t%s\n", faults(r.Faults))
	fmt.Fprintf(w, "seconds\t%.1f\n\n", r.Seconds)
	for _, i := range r.Invariants {
		fmt.Fprintf(w, "%s\t%s\t%s\n", i.Name, cmp.Or(map[bool]string{true: "ok"}[i.OK], "BROKEN"), i.Detail)
	}
	verdict := "All promises are kept."
	if !r.OK {
		verdict = "Promises are BROKEN."
	}
	fmt.Fprintf(w, "\n%s\n", verdict)
	return w.Flush()
}

// faults are the kinds, the most frequent first.
func faults(counts map[string]int64) string {
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	words := make([]string, len(kinds))
	for i, kind := range kinds {
		words[i] = fmt.Sprintf("%d %s", counts[kind], kind)
	}
	return cmp.Or(strings.Join(words, ", "), "none")
}

// nexts are the next three commands to try.
func nexts(r *demo.Report, o demo.Options) []string {
	audit := "go run ./examples/shop audit --store " + r.Store
	if !strings.HasPrefix(r.Store, "sqlite:") {
		audit += " --prefix " + o.Prefix
	}
	out := []string{command(self()+" demo", o, r.Store) + "   # the verdict again, from the databases",
		audit + "   # the auditor alone"}
	if o.Sabotage == "" {
		return append(out,
			self()+" demo --sabotage no-mark   # the same load without the mark: see what it is for")
	}
	return append(out, self()+" demo   # the same load with all safeguards")
}
