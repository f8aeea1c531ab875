package verbs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
)

const redrivesAbout = `Lists redriven dead letters, newest first: when, by whom, why, and their outcome up to now.

  done       its effect is committed
  rejected   its handler rejected it; the reason is shown
  barred     its step was undone before it ran
  dead       it failed again and is a dead letter again
  failed     it failed again and is retried
  calling    its external call is in progress
  waiting    it is not handled yet: check that its consumer runs, and check earlier messages of its key
  dropped    an operator dropped it
  edited     an operator replaced it
  again      it was redriven again later, and that redrive has the outcome
  finished   it finished so long ago that its outcome is deleted

The command lists the redrives of all tools: this command, the console and package operate.`

func redrivesCommand(out io.Writer) *cobra.Command {
	w := &wanted{}
	c := &cobra.Command{Use: "redrives", Short: "List the outcomes of redriven dead letters",
		Long: redrivesAbout, Args: cobra.NoArgs}
	connect.ListFlags(c, &w.Schema, &w.JSON)
	f := c.Flags()
	connect.Filter(f, &w.consumer, "consumer", "only of this consumer `GROUP`")
	connect.Filter(f, &w.source, "source", "only messages of this `SOURCE`")
	connect.ByID(c, &w.id)
	connect.Filter(f, &w.since, "since", "only redrives since this `TIME`: 2026-01-31T08:00:00Z, or 2h for two hours ago")
	connect.Filter(f, &w.until, "until", "only redrives before this `TIME`")
	f.IntVar(&w.limit, "limit", 100, "list the last `N`; 0 lists all")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return w.look(c, func(ctx context.Context, k keeper) error {
			all, more, err := operate.Redrives(ctx, k, operate.RedriveQuery{Consumer: w.consumer,
				Source: w.source, ID: w.id, From: w.from, To: w.to, Limit: w.limit})
			if err != nil {
				return fmt.Errorf("dead redrives: %w", err)
			}
			slices.Reverse(all)
			return tellRedrives(out, all, more, w.JSON)
		})
	}
	return c
}

func tellRedrives(out io.Writer, all []operate.Redriven, more, asJSON bool) error {
	if asJSON {
		enc := cli.JSON(out)
		for _, o := range all {
			if err := enc.Encode(o); err != nil {
				return err
			}
		}
		return nil
	}
	table, counts := cli.Table(out), map[string]int{}
	for i, o := range all {
		if i == 0 {
			fmt.Fprintln(table, "redriven\tby\treason\tconsumer\tid\toutcome\twhy")
		}
		counts[o.Outcome]++
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cli.Time(o.At), o.Who,
			cli.Line(o.Reason),
			o.Consumer, cli.Line(o.ID), o.Outcome, cli.Line(o.Why))
	}
	err := table.Flush()
	var words []string
	for _, outcome := range operate.RedriveOutcomes() {
		if n := counts[outcome]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	total := fmt.Sprintf("%d redriven", len(all))
	if len(words) > 0 {
		total += ": " + strings.Join(words, ", ")
	}
	if more {
		total += "; earlier redrives are not shown: --limit 0"
	}
	_, wrote := fmt.Fprintln(out, total)
	return errors.Join(err, wrote)
}
