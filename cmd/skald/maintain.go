package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/cmd/skald/internal/verbs"
	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

const maintainAbout = `Empties what is older than it is kept: rows that every shard has passed, marks, answers, what was taken out of
quarantine, and steps of sagas that began before. Relays do this by themselves, and consumers with inbox.Options.Retention.Keep: this is for where neither runs, or for
a look. What somebody has in hand it leaves for the next time, and says so.

It is noted who did it and why, so it needs what a relay needs and INSERT on skald_audit. Where less is to be kept than was gone by before, it asks: what
is forgotten so is no repeat any more when it comes again. With --dry-run it says how many would go, what was kept before, and how old the oldest row is. It counts
them one by one: of 10⁷ rows that takes seconds, which nobody waits for.`

// A maintainer is what the command asks of a store.
type maintainer interface {
	operate.Maintainer
	Check(ctx context.Context, as store.Role) error
}

type maintenance struct {
	operate.Order
	schema       string
	asJSON, sure bool
	keep         store.Retention
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
	Sagas  int64    `json:"sagas"`
	Left   []string `json:"left"`
}

type keptFor struct {
	Rows  float64 `json:"rows"`
	Marks float64 `json:"marks"`
	Steps float64 `json:"steps"`
	Sagas float64 `json:"sagas"`
}

func keptOf(r store.Retention) keptFor {
	return keptFor{r.Outbox.Seconds(), r.Marks.Seconds(), r.Steps.Seconds(), r.Sagas.Seconds()}
}

func maintainCommand(out, errs io.Writer) *cobra.Command {
	var m maintenance
	c := &cobra.Command{Use: "maintain", Short: "Empty what is older than it is kept", Long: maintainAbout,
		Args: cobra.NoArgs}
	connect.StoreFlags(c, &m.schema, &m.asJSON)
	f := c.Flags()
	connect.KeepFlags(f, &m.keep)
	f.StringVar(&m.Reason, "reason", "", "why; it is noted")
	f.StringVar(&m.Author, "by", connect.Whoami(), "who does it, for the audit")
	f.BoolVar(&m.DryRun, "dry-run", false, "say how many would go, and do nothing")
	f.BoolVar(&m.sure, "yes", false, "do not ask")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !m.DryRun && strings.TrimSpace(m.Reason) == "" {
			return &cli.UsageError{What: "why? Give --reason"}
		}
		if _, err := retention.OrDefaults(m.keep); err != nil { // before a database is asked for
			return fmt.Errorf("maintain: %w", err)
		}
		return verbs.With(c, m.schema, store.Relay, func(ctx context.Context, db maintainer) error {
			if err := m.run(ctx, out, errs, db); err != nil {
				return fmt.Errorf("maintain: %w", err)
			}
			return nil
		})
	}
	return c
}

func (m *maintenance) run(ctx context.Context, out, errs io.Writer, db operate.Maintainer) error {
	did, err := operate.Maintain(ctx, db, m.keep, m.sure, m.Order)
	if less := new(operate.ShorterError); errors.As(err, &less) {
		if err := connect.Yes(ctx, errs, less.Error()+".\nShall less be kept?", less.Error()+
			": if that is meant, add --yes"); err != nil {
			return err
		}
		did, err = operate.Maintain(ctx, db, m.keep, true, m.Order)
	}
	if err != nil {
		return err
	}
	return m.tell(out, maintained{DryRun: m.DryRun, Keep: keptOf(did.Keep), Before: keptOf(did.Before),
		Oldest: did.Oldest.Seconds(),
		Rows:   did.Rows, Marks: did.Marks, Steps: did.Steps, Sagas: did.Sagas,
		Left: append([]string{}, did.Left...)})
}

func (m *maintenance) tell(out io.Writer, t maintained) error {
	if m.asJSON {
		return cli.JSON(out).Encode(t)
	}
	if t.DryRun {
		w := cli.Table(out)
		fmt.Fprintln(w, "\twould go\twould be kept\twere kept before\t")
		for _, l := range []struct {
			what        string
			would       int64
			now, before float64
		}{{"rows", t.Rows, t.Keep.Rows, t.Before.Rows}, {"marks", t.Marks, t.Keep.Marks, t.Before.Marks},
			{"steps", t.Steps, t.Keep.Steps, t.Before.Steps},
			{"sagas", t.Sagas, t.Keep.Sagas, t.Before.Sagas}} {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t\n", l.what, l.would, span(l.now), span(l.before))
		}
		for _, what := range t.Left {
			fmt.Fprintln(w, "would be left: "+what)
		}
		fmt.Fprintf(w, "the oldest row was written %s ago\n", span(t.Oldest))
		return w.Flush()
	}
	fmt.Fprintf(out, "rows   %s\nmarks  %s\nsteps  %d\nsagas  %d\n", gone(t.Rows), gone(t.Marks),
		t.Steps, t.Sagas)
	for _, what := range t.Left {
		fmt.Fprintln(out, "left   "+what)
	}
	return nil
}

func span(seconds float64) string {
	return retention.Spell(time.Duration(seconds * float64(time.Second)))
}

func gone(n int64) string {
	if n < 0 {
		return "whole slots"
	}
	return fmt.Sprint(n)
}
