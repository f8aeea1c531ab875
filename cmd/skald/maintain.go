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

const maintainAbout = `Deletes rows after their retention: published outbox rows, marks with their answers, admitted messages
of the quarantine, steps and ended sagas. Relays do this by themselves. A consumer does it only with the
option inbox.Options.Retention.Keep. Use the command if neither does it, or with --dry-run to see the numbers.
Rows that another process has locked remain until the next run; the command reports them.

If the new retention is shorter than the last one, the command asks first: it deletes marks, and without
its mark a redelivered message is handled again. It needs the rights of a relay, and INSERT on skald_audit.
--dry-run counts each row, which takes seconds for 10⁷ rows.`

// maintainer is the part of a store that the command needs.
type maintainer interface {
	operate.MaintainStore
	Check(ctx context.Context, as store.Role) error
}

type maintenance struct {
	operate.Order
	schema       string
	asJSON, sure bool
	keep         store.Retention
}

// maintained is the output of --json. The field names are stable. Times are in seconds.
type maintained struct {
	DryRun bool     `json:"dry_run"`
	Keep   keptFor  `json:"keep"`
	Before keptFor  `json:"before"` // the last retention; 0 if none was applied
	Oldest float64  `json:"oldest"` // age of the oldest row before the command; 0 without rows
	Rows   int64    `json:"rows"`   // deleted rows, or rows to delete in a dry run; -1 if not counted
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
	c := &cobra.Command{Use: "maintain", Short: "Delete expired rows", Long: maintainAbout,
		Args: cobra.NoArgs}
	connect.StoreFlags(c, &m.schema, &m.asJSON)
	f := c.Flags()
	connect.KeepFlags(f, &m.keep)
	connect.AuditFlags(f, &m.Reason, &m.Author)
	f.BoolVar(&m.DryRun, "dry-run", false, "count the rows, and delete nothing")
	f.BoolVar(&m.sure, "yes", false, "do not ask for confirmation")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !m.DryRun && strings.TrimSpace(m.Reason) == "" {
			return &cli.UsageError{What: "why? Give --reason"}
		}
		if _, err := retention.OrDefaults(m.keep); err != nil { // reported even without a database
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

func (m *maintenance) run(ctx context.Context, out, errs io.Writer, db operate.MaintainStore) error {
	did, err := operate.Maintain(ctx, db, m.keep, m.sure, m.Order)
	if less := new(operate.ShorterError); errors.As(err, &less) {
		if err := connect.Yes(ctx, errs, less.Error()+".\nDelete more?", less.Error()+
			": to delete more, add --yes"); err != nil {
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
		fmt.Fprintln(w, "\tto delete\tretention\tlast retention\t")
		for _, l := range []struct {
			what        string
			would       int64
			now, before float64
		}{{"rows", t.Rows, t.Keep.Rows, t.Before.Rows}, {"marks", t.Marks, t.Keep.Marks, t.Before.Marks},
			{"steps", t.Steps, t.Keep.Steps, t.Before.Steps},
			{"sagas", t.Sagas, t.Keep.Sagas, t.Before.Sagas}} {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t\n", l.what, l.would, span(l.now), formatRetention(l.before))
		}
		for _, what := range t.Left {
			fmt.Fprintln(w, "locked by another process: "+what)
		}
		oldest := "there is no row"
		if t.Oldest > 0 {
			oldest = fmt.Sprintf("the oldest row was written %s ago", span(t.Oldest))
		}
		fmt.Fprintln(w, oldest)
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

// formatRetention formats the retention that was last applied.
func formatRetention(seconds float64) string {
	if seconds == 0 {
		return "never ran"
	}
	return span(seconds)
}

func gone(n int64) string {
	if n < 0 {
		return "whole slots"
	}
	return fmt.Sprint(n)
}
