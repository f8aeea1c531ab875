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

// Parked returns skald parked.
func Parked(out, errs io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "parked",
		Short: "Inspect parked messages: failed ones and those behind them",
		Long: `Inspects parked messages. They failed and wait for their next attempt, or they wait behind such a
message of the same key.`}
	w := &wanted{}
	free := &cobra.Command{Use: "release",
		Short: "Retry parked messages now and reset their attempts", Args: cobra.NoArgs,
		Long: `Retries parked messages now and resets their attempts. The running consumer handles them within seconds,
under their own ids, and messages of one key in order, one at a time.`,
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
	c.AddCommand(listCommand(out, false, "List parked messages"), free)
	return c
}

// Dead returns skald dead.
func Dead(out, errs io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "dead", Short: "Inspect, deliver again, edit and drop dead letters",
		Long: `Inspects and settles dead letters: messages that a consumer gave up because their attempts are used up,
their handler rejected them, or they cannot be decoded.`}
	c.AddCommand(groupsCommand(out), listCommand(out, true, "List dead letters"),
		showDeadCommand(out), redriveCommand(out, errs), redrivesCommand(out), dropCommand(out, errs),
		editCommand(out), exportCommand(out), keptImportCommand(out, errs))
	return c
}

func groupsCommand(out io.Writer) *cobra.Command {
	w := &wanted{dead: true}
	c := &cobra.Command{Use: "groups", Short: "Group dead letters by error", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return w.look(c, func(ctx context.Context, k keeper) error {
				all, err := operate.Groups(ctx, k, w.selection())
				if err != nil {
					return err
				}
				if len(all) == 0 {
					if err := checkConsumer(ctx, k, w.consumer); err != nil {
						return err
					}
				}
				found := newestBy(w.limit, func(a, b *operate.Group) int { return a.Last.Compare(b.Last) })
				for i := range all {
					found.add(all[i])
				}
				list := found.sort()
				err = tellGroups(out, list, w.JSON)
				cli.Ended(c.ErrOrStderr(), len(list), found.all, "dead letters", w.JSON)
				return err
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
