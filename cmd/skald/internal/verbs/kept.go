// This file has the commands on messages that a consumer keeps: skald parked, and skald dead for dead
// letters.

package verbs

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// A keeper is what the commands on kept messages ask of a store.
type keeper interface {
	operate.Dropper
	operate.Redriver
	operate.Historian
	store.PayloadSchemas
	store.Teller
	Check(ctx context.Context, as store.Role) error
}

func listCommand(out io.Writer, dead bool, short string) *cobra.Command {
	w := &wanted{dead: dead}
	c := &cobra.Command{Use: "list", Short: short, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			table := cli.Table(out)
			n := 0
			err := w.each(c, true, func(p *store.Parked) error {
				n++
				if w.JSON {
					return cli.JSON(out).Encode(operate.MessageOf(p))
				}
				if n == 1 {
					fmt.Fprintln(table, "consumer\tid\ttype\tkey\tattempts\tstate\terror")
				}
				_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", p.Consumer,
					cli.Line(p.ID), cli.Line(p.Message.Type),
					connect.KeyText(p.Message.Key), p.Attempts, operate.State(p), cli.FirstLine(p.Last.Why))
				return err
			})
			if err == nil {
				cli.None(c.ErrOrStderr(), n, w.JSON)
			}
			return errors.Join(err, table.Flush())
		}}
	w.flags(c, false)
	return c
}

// each has f print what is selected, up to the limit.
func (w *wanted) each(c *cobra.Command, bare bool, f func(p *store.Parked) error) error {
	return w.eachIn(c, bare, func(_ context.Context, _ keeper, p *store.Parked) error { return f(p) })
}

// eachIn also hands over where it is kept.
func (w *wanted) eachIn(c *cobra.Command, bare bool,
	f func(ctx context.Context, k keeper, p *store.Parked) error) error {
	return w.look(c, func(ctx context.Context, k keeper) error {
		n := 0
		for p, err := range operate.List(ctx, k, w.selection(), bare) {
			if err == nil {
				err = f(ctx, k, &p)
			}
			if n++; err != nil || n == w.limit {
				return err
			}
		}
		if n == 0 {
			return known(ctx, k, w.consumer)
		}
		return nil
	})
}

// tellBulk prints the report of a verb on many messages, and what else will be wanted.
func tellBulk(out io.Writer, w *wanted, verb string, r operate.Report, wanted ...string) error {
	if w.JSON {
		said := map[string]any{"what": verb, "meant": r.Selected, "done": r.Done, "dry_run": w.Dry}
		if len(wanted) > 0 {
			said["wanted"] = wanted
		}
		return cli.JSON(out).Encode(said)
	}
	word := "done"
	if w.Dry {
		word = "would be done"
	}
	_, err := fmt.Fprintf(out, "%s: %d of %d messages %s\n", verb, r.Done, r.Selected, word)
	for _, more := range wanted {
		_, wrote := fmt.Fprintln(out, cli.Line(more))
		err = errors.Join(err, wrote)
	}
	return err
}
