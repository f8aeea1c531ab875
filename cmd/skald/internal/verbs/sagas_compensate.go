package verbs

import (
	"cmp"
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

const compensateAbout = `Requests the undo of choreographed sagas. For each step that took effect it publishes the event that
flow.Undo declares, through the outbox of the tracker's database. A relay must serve that outbox.

The same transaction records the request, so a second command publishes nothing twice. Steps that the
saga itself has undone are left out. If a step has no declared undo, the command names the step and
publishes nothing. A step that takes effect later is not undone: check with skald status.

Without KEY it compensates all sagas that --state, --overdue and --flow select. The console shows the
progress of such a run. If it is interrupted, the same command continues it.`

// Compensate returns skald compensate.
func Compensate(out, errs io.Writer) *cobra.Command {
	w, wish, all := &connect.Change{}, operate.CompensateRequest{}, operate.FlowSelection{}
	c := &cobra.Command{Use: "compensate [KEY]", Short: "Undo one saga or many, with a reason",
		Long: compensateAbout, Args: cobra.MaximumNArgs(1)}
	connect.StoreFlags(c, &w.Schema, &w.JSON)
	f := c.Flags()
	connect.Filter(f, &wish.Flow, "flow", "only sagas of this `FLOW`")
	connect.Filter(f, &all.State, "state", "without KEY: all sagas with this `STATE`: "+
		strings.Join(operate.SagaStatuses(), ", "))
	f.BoolVar(&all.Overdue, "overdue", false, "without KEY: all sagas that wait for an overdue event")
	f.BoolVar(&wish.Repeat, "again", false,
		"request again the undos that were requested before and are not confirmed")
	f.BoolVar(&w.Yes, "yes", false, "do not ask for confirmation")
	f.BoolVar(&w.Dry, "dry-run", false, "print the events, and change nothing")
	connect.AuditFlags(f, &w.Reason, &w.By)
	c.RunE = func(c *cobra.Command, args []string) error {
		missing := w.Reasoned("compensate")
		if len(args) == 0 && missing != nil {
			return missing
		}
		if len(args) == 0 {
			all.Flow = wish.Flow
			return writing(c, w, func(ctx context.Context, k sagasKeeper) error {
				return compensateMany(ctx, k, w, all, out, errs)
			})
		}
		if all != (operate.FlowSelection{}) {
			return &cli.UsageError{What: "--state and --overdue select many sagas: give them, or a KEY"}
		}
		wish.Key = args[0]
		if missing != nil {
			return unchecked(c, w.Schema, func(ctx context.Context, k sagasKeeper) error {
				_, err := compensateIn(ctx, k, wish, operate.Order{DryRun: true})
				return cmp.Or(err, missing)
			})
		}
		return writing(c, w, func(ctx context.Context, k sagasKeeper) error {
			o := operate.Order{Author: w.By, Reason: w.Reason, DryRun: w.Dry}
			if !w.Yes {
				o.Confirm = func(ctx context.Context, _ int) error {
					return connect.Yes(ctx, errs, fmt.Sprintf("Undo saga %.100s?", wish.Key),
						"compensate: list the events with --dry-run; to publish them, add --yes")
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

// compensateMany compensates the sagas of a selection in a run. The same command continues an interrupted
// run.
func compensateMany(ctx context.Context, k sagasKeeper, w *connect.Change,
	selection operate.FlowSelection, out, errs io.Writer) error {
	o := operate.Order{Author: w.By, Reason: w.Reason, DryRun: w.Dry}
	if !w.Yes {
		o.Confirm = func(ctx context.Context, n int) error {
			return connect.Yes(ctx, errs, fmt.Sprintf("Undo %s?", cli.Count(n, "saga")),
				"compensate: list the events with --dry-run; to publish them, add --yes")
		}
	}
	name, err := runName("compensate", selection, w.Reason)
	if err != nil {
		return err
	}
	var r operate.SagaReport
	switch db := k.(type) {
	case operate.FlowStore[pgx.Tx]:
		r, err = operate.RunFlows(ctx, db, name, selection, o)
	case operate.FlowStore[*sql.Tx]:
		r, err = operate.RunFlows(ctx, db, name, selection, o)
	default:
		return fmt.Errorf("%T does not store sagas", k)
	}
	if none := new(operate.NoMatchError); errors.As(err, &none) {
		fmt.Fprintln(errs, "skald: "+none.Reason)
		err = nil
	}
	if err != nil && !errors.As(err, new(*operate.PartialError)) {
		return err
	}
	return errors.Join(tellChanged(out, w.JSON, w.Dry, "compensate", &r), err)
}

func compensateIn(ctx context.Context, k sagasKeeper, wish operate.CompensateRequest,
	o operate.Order) (operate.CompensateReport, error) {
	switch db := k.(type) {
	case operate.CompensateStore[pgx.Tx]:
		return operate.Compensate(ctx, db, wish, o)
	case operate.CompensateStore[*sql.Tx]:
		return operate.Compensate(ctx, db, wish, o)
	}
	return operate.CompensateReport{}, fmt.Errorf("%T does not store sagas", k)
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
			"the undo of %s was requested at %s, and %s has not arrived yet: --again requests it again\n",
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
