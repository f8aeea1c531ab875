package verbs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
)

const redrivesAbout = `Says of each dead letter that was redriven when, by whom and why, and what has become of it by now:

  done       its effect is committed
  rejected   its handler said no, for the reason that is shown
  barred     its step was to be undone before it was taken
  dead       it failed again and is a dead letter again
  failed     it failed again and is tried again by itself
  calling    it is at a call to the outside
  waiting    it was not taken yet: does its consumer run, and does a message of its key hold it?
  dropped, edited   somebody did that since
  again      it was redriven once more since: see there
  finished   so long ago that it is forgotten how

It reads what operators did (skald_audit), the last first, until it has as many as --limit or is before --since; and how the messages stand
now: so it can be asked at any time, and in any way of redriving.`

func redrivesCommand(out io.Writer) *cobra.Command {
	w := &wanted{}
	c := &cobra.Command{Use: "redrives", Short: "What became of dead letters that were redriven",
		Long: redrivesAbout, Args: cobra.NoArgs}
	connect.ListFlags(c, &w.Schema, &w.JSON)
	f := c.Flags()
	connect.Filter(f, &w.consumer, "consumer", "only of this consumer group")
	connect.Filter(f, &w.source, "source", "with ID: only this message")
	connect.ByID(c, &w.id)
	connect.Filter(f, &w.since, "since", "only those redriven since then: 2026-01-31T08:00:00Z, or 2h: two hours ago")
	connect.Filter(f, &w.until, "until", "only those redriven before; the same")
	f.IntVar(&w.limit, "limit", 100, "at most so many, the last ones; 0: all")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return w.look(c, func(ctx context.Context, k keeper) error {
			all, more, err := operate.Redrives(ctx, k, operate.RedriveQuery{Consumer: w.consumer,
				Source: w.source, ID: w.id, From: w.from, To: w.to, Limit: w.limit})
			if err != nil {
				return fmt.Errorf("dead redrives: %w", err)
			}
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
		total += "; what was before is not shown: --limit 0"
	}
	_, wrote := fmt.Fprintln(out, total)
	return errors.Join(err, wrote)
}
