package verbs

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/operate"
)

// Parked is skald parked.
func Parked(out, errs io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "parked",
		Short: "Messages that failed and are tried again, and those behind them"}
	w := &wanted{}
	free := &cobra.Command{Use: "release",
		Short: "Have parked messages tried now, with all their attempts before them", Args: cobra.NoArgs,
		Long: `The running consumer takes them within seconds, under their own ids; of one key in their order, one at a time.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return w.bulk(c, errs, "release", func(ctx context.Context, k keeper, o operate.Order) error {
				r, err := operate.Release(ctx, k, w.selection(), o)
				if cli.Reported(err) {
					err = errors.Join(tellBulk(out, w, "release", r), err)
				}
				return err
			})
		}}
	w.bulkFlags(free)
	c.AddCommand(listCommand(out, false, "What is parked, in the order of arrival"), free)
	return c
}

// Dead is skald dead.
func Dead(out, errs io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "dead", Short: "Dead letters: look, redrive, drop"}
	c.AddCommand(groupsCommand(out), listCommand(out, true, "Dead letters, in the order of arrival"),
		showDeadCommand(out), redriveCommand(out, errs), redrivesCommand(out), dropCommand(out, errs),
		editCommand(out), exportCommand(out), keptImportCommand(out, errs))
	return c
}

func groupsCommand(out io.Writer) *cobra.Command {
	w := &wanted{dead: true}
	c := &cobra.Command{Use: "groups", Short: "Dead letters by what went wrong", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return w.look(c, func(ctx context.Context, k keeper) error {
				all, err := operate.Groups(ctx, k, w.selection())
				if err != nil {
					return err
				}
				if len(all) == 0 {
					if err := known(ctx, k, w.consumer); err != nil {
						return err
					}
				}
				if w.limit > 0 {
					all = all[:min(w.limit, len(all))]
				}
				cli.None(c.ErrOrStderr(), len(all), w.JSON)
				return tellGroups(out, all, w.JSON)
			})
		}}
	w.flags(c, false)
	return c
}

func tellGroups(out io.Writer, all []operate.Group, asJSON bool) (err error) {
	table := cli.Table(out)
	if len(all) > 0 && !asJSON {
		fmt.Fprintln(table, "dead\tconsumer\tfingerprint\tkind\ttype\tfirst\tlast\terror of one")
	}
	for _, g := range all {
		if asJSON {
			err = errors.Join(err, cli.JSON(out).Encode(g))
			continue
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", g.Count, g.Consumer, g.Fingerprint,
			g.Kind, cli.Line(g.Type),
			cli.Time(g.First), cli.Time(g.Last), cli.FirstLine(g.Error))
	}
	return errors.Join(err, table.Flush())
}
