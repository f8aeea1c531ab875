package verbs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/flow"
	"github.com/skald-go/skald/operate"
)

const compensateAbout = `Has a choreographed saga undone, for a reason. For each step that took effect it publishes the event by which the flow asks
for the undo (flow.Undo), through the outbox of the tracker's database, which a relay has to serve. It is noted who wanted it, in the same
commit, so typing it again asks for nothing twice. What the saga itself has undone meanwhile is not undone again. A step of which the flow
declares no undo is named, and then nothing is published. A step that takes effect later is not undone: look with skald status.

Without KEY all that the filter chooses are undone, in a run that the console shows; the same command again goes on with one that was
interrupted.`

// Compensate is skald compensate.
func Compensate(out, errs io.Writer) *cobra.Command {
	w, wish, all := &connect.Change{}, operate.Wish{}, operate.FlowSelection{}
	c := &cobra.Command{Use: "compensate [KEY]", Short: "Have a saga undone, or many, for a reason",
		Long: compensateAbout, Args: cobra.MaximumNArgs(1)}
	connect.StoreFlags(c, &w.Schema, &w.JSON)
	f := c.Flags()
	connect.Filter(f, &wish.Flow, "flow", "of this flow, where sagas of several flows have the key")
	connect.Filter(f, &all.State, "state", "without KEY: all that are so, one of "+
		strings.Join(operate.SagaStatuses(), ", ")+"; with --flow, of this one")
	f.BoolVar(&all.Overdue, "overdue", false, "without KEY: all that wait for something that is due")
	f.BoolVar(&wish.Again, "again", false,
		"ask once more for what was asked for before, and is not reported yet")
	f.BoolVar(&w.Yes, "yes", false, "do not ask")
	f.BoolVar(&w.Dry, "dry-run", false, "say what would be asked for, and change nothing")
	f.StringVar(&w.Reason, "reason", "", "why; it is kept in skald_audit")
	f.StringVar(&w.By, "by", connect.Whoami(), "who does it, for the audit")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := w.Reasoned("compensate"); err != nil {
			return err
		}
		if len(args) == 0 {
			all.Flow = wish.Flow
			return writing(c, w, func(ctx context.Context, k sagasKeeper) error {
				return compensateMany(ctx, k, w, all, out, errs)
			})
		}
		if all != (operate.FlowSelection{}) {
			return &cli.UsageError{What: "--state and --overdue choose many: give them, or a KEY"}
		}
		wish.Key = args[0]
		return writing(c, w, func(ctx context.Context, k sagasKeeper) error {
			o := operate.Order{Author: w.By, Reason: w.Reason, DryRun: w.Dry}
			if !w.Yes {
				o.Confirm = func(ctx context.Context, _ int) error {
					return connect.Yes(ctx, errs, fmt.Sprintf("Shall saga %.100s be undone?", wish.Key),
						"compensate: look with --dry-run; if it is meant, add --yes")
				}
			}
			r, err := compensateIn(ctx, k, wish, o)
			if err != nil {
				return err
			}
			return tellCompensated(out, w, &r)
		})
	}
	return c
}

// compensateMany has all that are chosen undone, in a run: the same command again goes on with one that was
// interrupted.
func compensateMany(ctx context.Context, k sagasKeeper, w *connect.Change, all operate.FlowSelection, out,
	errs io.Writer) error {
	o := operate.Order{Author: w.By, Reason: w.Reason, DryRun: w.Dry}
	if !w.Yes {
		o.Confirm = func(ctx context.Context, n int) error {
			return connect.Yes(ctx, errs, fmt.Sprintf("Shall %s be undone?", cli.Count(n, "saga")),
				"compensate: look with --dry-run; if it is meant, add --yes")
		}
	}
	name, err := runName("compensate", all, w.Reason)
	if err != nil {
		return err
	}
	var r operate.SagaReport
	switch db := k.(type) {
	case operate.FlowKeeper[pgx.Tx]:
		r, err = operate.RunFlows(ctx, db, name, all, o)
	case operate.FlowKeeper[*sql.Tx]:
		r, err = operate.RunFlows(ctx, db, name, all, o)
	default:
		return fmt.Errorf("%T keeps no sagas", k)
	}
	if err != nil && !errors.As(err, new(*operate.PartlyError)) {
		return err
	}
	return errors.Join(tellChanged(out, w.JSON, w.Dry, "compensate", &r), err)
}

func compensateIn(ctx context.Context, k sagasKeeper, wish operate.Wish,
	o operate.Order) (operate.CompensateReport, error) {
	switch db := k.(type) {
	case operate.Compensator[pgx.Tx]:
		return operate.Compensate(ctx, db, wish, o)
	case operate.Compensator[*sql.Tx]:
		return operate.Compensate(ctx, db, wish, o)
	}
	return operate.CompensateReport{}, fmt.Errorf("%T keeps no sagas", k)
}

func tellCompensated(out io.Writer, w *connect.Change, r *operate.CompensateReport) error {
	if w.JSON {
		events := make([]map[string]any, len(r.Events))
		for i := range r.Events {
			m := &r.Events[i]
			events[i] = map[string]any{"id": m.ID, "topic": m.Topic, "type": m.Type, "key": m.Key}
		}
		return cli.JSON(out).Encode(map[string]any{"what": "compensate", "flow": r.Flow, "key": r.Key,
			"events": events,
			"before": append([]flow.Asked{}, r.Before...), "dry_run": w.Dry})
	}
	word := "is written"
	if w.Dry {
		word = "would be written"
	}
	for i := range r.Events {
		m := &r.Events[i]
		if _, err := fmt.Fprintf(out, "%s %s: %s to %s\n", cli.Line(m.ID), word,
			cli.Line(m.Type), m.Topic); err != nil {
			return err
		}
	}
	for _, a := range r.Before {
		if _, err := fmt.Fprintf(out,
			"the undo of %s was asked for at %s, and %s is not heard of yet: --again asks once more\n",
			a.Step, cli.Time(a.At), listed(a.For, " or ")); err != nil {
			return err
		}
	}
	return nil
}

func listed(names []flow.Name, between string) string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = n.Type
	}
	return strings.Join(all, between)
}
