// This file has the type and the output that skald parked and skald dead share.

package verbs

import (
	"cmp"
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

// keeper is the part of a store that these commands need.
type keeper interface {
	operate.DropStore
	operate.RedriveStore
	operate.HistoryStore
	store.PayloadSchemas
	store.StatusReader
	Check(ctx context.Context, as store.Role) error
}

func listCommand(out io.Writer, dead bool, short string) *cobra.Command {
	w := &wanted{dead: dead}
	c := &cobra.Command{Use: "list", Short: short, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			found := newestBy(w.limit, keptOrder)
			all := *w
			all.limit = 0
			if err := w.valid(); err != nil {
				return err
			}
			if err := all.each(c, true, func(p *store.Parked) error {
				found.add(*p)
				return nil
			}); err != nil {
				return err
			}
			list := found.sort()
			err := tellKept(out, list, w.JSON)
			cli.Ended(c.ErrOrStderr(), len(list), found.all, keptWord(dead), w.JSON)
			return err
		}}
	w.flags(c, false)
	return c
}

// keptWord returns the word for dead letters or for parked messages.
func keptWord(dead bool) string {
	if dead {
		return "dead letters"
	}
	return "parked messages"
}

// keptOrder orders dead letters by the time of their death, and parked messages by their arrival.
func keptOrder(a, b *store.Parked) int {
	died := 0
	if a.Dead != nil && b.Dead != nil {
		died = a.Dead.At.Compare(b.Dead.At)
	}
	return cmp.Or(died, cmp.Compare(a.Place, b.Place))
}

func tellKept(out io.Writer, list []store.Parked, asJSON bool) error {
	table := cli.Table(out)
	for i := range list {
		p := &list[i]
		if asJSON {
			if err := cli.JSON(out).Encode(operate.NewMessage(p)); err != nil {
				return err
			}
			continue
		}
		if i == 0 {
			fmt.Fprintln(table, "consumer\tid\ttype\tkey\tattempts\tstate\terror")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", p.Consumer, cli.Line(p.ID),
			cli.Line(p.Message.Type), connect.KeyText(p.Message.Key), p.Attempts, operate.State(p),
			cli.FirstLine(p.Last.Why))
	}
	return table.Flush()
}

// each calls f with the selected messages, up to the limit.
func (w *wanted) each(c *cobra.Command, bare bool, f func(p *store.Parked) error) error {
	return w.look(c, func(ctx context.Context, k keeper) error {
		n := 0
		for p, err := range operate.List(ctx, k, w.selection(), bare) {
			if err == nil {
				err = f(&p)
			}
			if n++; err != nil || n == w.limit {
				return err
			}
		}
		if n == 0 {
			return checkConsumer(ctx, k, w.consumer)
		}
		return nil
	})
}

// tellBulk prints the report of a command on many messages. After a dry run, the list missing has the
// arguments that the command still needs.
func tellBulk(out io.Writer, w *wanted, verb string, r operate.Report, missing ...string) error {
	if w.JSON {
		result := map[string]any{"what": verb, "meant": r.Selected, "done": r.Done, "dry_run": w.Dry}
		if len(missing) > 0 {
			result["wanted"] = missing
		}
		return cli.JSON(out).Encode(result)
	}
	word := "done"
	if w.Dry {
		word = "would be done"
	}
	_, err := fmt.Fprintf(out, "%s: %d of %d messages %s\n", verb, r.Done, r.Selected, word)
	for _, more := range missing {
		_, wrote := fmt.Fprintln(out, cli.Line(more))
		err = errors.Join(err, wrote)
	}
	return err
}
