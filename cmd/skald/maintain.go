package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/store"
)

const maintainAbout = `Empties what is older than it is kept: rows that every lane has passed, marks, answers, what was taken out of
quarantine, and steps of sagas that began before. Relays do this by themselves, and consumers with inbox.Options.Keep: this is for where neither runs, or for
a look. What somebody has in hand it leaves for the next time, and says so.

It is noted who did it and why, so it needs what a relay needs and INSERT on skald_audit. Where less is to be kept than was gone by before, it asks: what
is forgotten so is no repeat any more when it comes again. With --dry-run it says how many would go, what was kept before, and how old the oldest row is. It counts
them one by one: of 10⁷ rows that takes seconds, which nobody waits for.`

type maintenance struct {
	schema, reason, by string
	asJSON, dry, sure  bool
	keep               store.Retention
}

// A maintained is what --json prints: its names are stable. Times are in seconds.
type maintained struct {
	DryRun bool     `json:"dry_run"`
	Keep   keptFor  `json:"keep"`
	Before keptFor  `json:"before"` // what was gone by the last time; 0: nobody has seen to it
	Oldest float64  `json:"oldest"` // row, before; 0: there is none
	Rows   int64    `json:"rows"`   // that went, or would go; -1: whole slots, which were not counted
	Marks  int64    `json:"marks"`
	Steps  int64    `json:"steps"`
	Left   []string `json:"left"`
}

type keptFor struct {
	Rows  float64 `json:"rows"`
	Marks float64 `json:"marks"`
	Steps float64 `json:"steps"`
}

func keptOf(r store.Retention) keptFor {
	return keptFor{r.Outbox.Seconds(), r.Marks.Seconds(), r.Steps.Seconds()}
}

// janitor is what maintain asks of a store.
type janitor interface {
	Maintain(ctx context.Context, keep store.Retention) (store.Maintained, error)
	Keeps(ctx context.Context) (store.Retention, error)
	Backlog(ctx context.Context) (store.Backlog, error)
	Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
	store.Forecaster
}

func maintainCommand(out, errs io.Writer) *cobra.Command {
	var m maintenance
	c := &cobra.Command{Use: "maintain", Short: "Empty what is older than it is kept", Long: maintainAbout, Args: cobra.NoArgs}
	storeFlags(c, &m.schema, &m.asJSON)
	f := c.Flags()
	f.DurationVar(&m.keep.Outbox, "keep-outbox", 7*24*time.Hour, "how long rows are kept once they are published")
	f.DurationVar(&m.keep.Marks, "keep-marks", 30*24*time.Hour, "how long marks are kept; at least as long as rows")
	f.DurationVar(&m.keep.Steps, "keep-steps", 90*24*time.Hour, "how long steps are kept after their saga began: no saga may take longer")
	f.StringVar(&m.reason, "reason", "", "why; it is noted")
	f.StringVar(&m.by, "by", whoami(), "who; it is noted")
	f.BoolVar(&m.dry, "dry-run", false, "say how many would go, and do nothing")
	f.BoolVar(&m.sure, "yes", false, "do not ask")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !m.dry && strings.TrimSpace(m.reason) == "" {
			return &place.UsageError{What: "why? Give --reason"}
		}
		var err error
		if m.keep, err = retention.OrDefaults(m.keep); err != nil {
			return fmt.Errorf("maintain: %w", err)
		}
		return withKnower(c, m.schema, store.Relay, func(ctx context.Context, k knower) error {
			j, ok := k.(janitor)
			if !ok {
				return fmt.Errorf("maintain: %T cannot be asked what it keeps", k)
			}
			return m.run(ctx, out, errs, j)
		})
	}
	return c
}

func (m *maintenance) run(ctx context.Context, out, errs io.Writer, j janitor) error {
	before, err := j.Keeps(ctx)
	if err != nil {
		return fmt.Errorf("maintain: %w", err)
	}
	b, err := j.Backlog(ctx)
	if err != nil {
		return fmt.Errorf("maintain: %w", err)
	}
	told := maintained{DryRun: m.dry, Keep: keptOf(m.keep), Before: keptOf(before), Oldest: b.Retained.Seconds(), Left: []string{}}
	if m.dry {
		would, err := j.Forecast(ctx, m.keep)
		if err != nil {
			return fmt.Errorf("maintain: %w", err)
		}
		told.Rows, told.Marks, told.Steps, told.Left = would.Rows, would.Marks, would.Steps, append(told.Left, would.Left...)
		return m.tell(out, told)
	}
	if less(m.keep, before) && !m.sure {
		said := fmt.Sprintf("before, rows were kept %v, marks %v, steps %v; now it is to be %v, %v, %v", before.Outbox, before.Marks, before.Steps, m.keep.Outbox, m.keep.Marks, m.keep.Steps)
		if err := askFirst(ctx, errs, said+".\nShall less be kept?", said+": if that is meant, add --yes"); err != nil {
			return err
		}
	}
	_, err = j.Apply(ctx, store.Effect{Audit: &store.Audit{Who: m.by, Why: m.reason, What: "maintain",
		Identity: store.Identity{ID: fmt.Sprintf("rows %v, marks %v, steps %v", m.keep.Outbox, m.keep.Marks, m.keep.Steps)}}})
	if err != nil {
		return fmt.Errorf("maintain: note who does it: %w", err)
	}
	did, err := maintain(ctx, j, m.keep)
	if err != nil {
		return err
	}
	told.Rows, told.Marks, told.Steps, told.Left = did.Rows, did.Marks, did.Steps, append(told.Left, did.Left...)
	return m.tell(out, told)
}

// less tells whether something is to be kept for a shorter time than before.
func less(now, before store.Retention) bool {
	return now.Outbox < before.Outbox || now.Marks < before.Marks || now.Steps < before.Steps
}

func (m *maintenance) tell(out io.Writer, t maintained) error {
	if m.asJSON {
		return json.NewEncoder(out).Encode(t)
	}
	if t.DryRun {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "\twould go\twould be kept\twere kept before\t")
		for _, l := range []struct {
			what        string
			would       int64
			now, before float64
		}{{"rows", t.Rows, t.Keep.Rows, t.Before.Rows}, {"marks", t.Marks, t.Keep.Marks, t.Before.Marks}, {"steps", t.Steps, t.Keep.Steps, t.Before.Steps}} {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t\n", l.what, l.would, seconds(l.now), seconds(l.before))
		}
		for _, what := range t.Left {
			fmt.Fprintln(w, "would be left: "+what)
		}
		fmt.Fprintf(w, "the oldest row was written %s ago\n", seconds(t.Oldest))
		return w.Flush()
	}
	fmt.Fprintf(out, "rows   %s\nmarks  %s\nsteps  %d\n", gone(t.Rows), gone(t.Marks), t.Steps)
	for _, what := range t.Left {
		fmt.Fprintln(out, "left   "+what)
	}
	return nil
}

// maintain goes on until nothing is left that can be had.
func maintain(ctx context.Context, k janitor, keep store.Retention) (sum store.Maintained, err error) {
	for more := true; more; {
		did, err := k.Maintain(ctx, keep)
		if err != nil {
			return sum, fmt.Errorf("maintain: %w", err)
		}
		sum.Rows, sum.Marks, sum.Steps = added(sum.Rows, did.Rows), added(sum.Marks, did.Marks), sum.Steps+did.Steps
		sum.Left, more = did.Left, did.More
	}
	return sum, nil
}

// added: whole slots were not counted.
func added(sum, n int64) int64 {
	if sum < 0 || n < 0 {
		return -1
	}
	return sum + n
}

func gone(n int64) string {
	if n < 0 {
		return "whole slots"
	}
	return fmt.Sprint(n)
}
