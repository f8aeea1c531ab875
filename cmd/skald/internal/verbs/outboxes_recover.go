package verbs

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

const recoverAbout = `Settles the outbox of a database that moved: one that was restored elsewhere, went back in time, or was switched over
by logical replication. Its relays have stopped and said what they saw. Afterwards each retained row that is not known as
published is published once more, in order; inboxes drop repeats. Sequences that have not come to what consumers keep, as after a
logical switch-over, which copies none, go on after it: consumers have stopped, too, and said so.

Make sure first that no other copy of the database has relays: both would publish. Writers may go on; they are locked out
for a moment at the end. It may be run as often as you like, also after it was ended half way; where nothing moved it
does nothing, with exit code 5. It needs the rights of whoever migrated the tables.`

func recoverCommand(out, errs io.Writer) *cobra.Command {
	var schema string
	var o operate.Order
	var sure, asJSON bool
	c := &cobra.Command{
		Use: "recover", Short: "Settle a database that moved", Long: recoverAbout, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !o.DryRun && strings.TrimSpace(o.Reason) == "" {
				return &cli.UsageError{What: "why? Give --reason"}
			}
			return unchecked(c, schema, func(ctx context.Context, db operate.Recoverer) error {
				done, err := outboxesRecover(ctx, db, errs, sure, o)
				switch {
				case err != nil:
					return err
				case asJSON:
					return cli.JSON(out).Encode(recovered{o.DryRun, done.Moved,
						done.Covered, done.Again,
						done.Renumbered, done.Shards, done.Raised})
				case o.DryRun:
					_, err = fmt.Fprintf(out,
						"moved       %s\n\nWith a --reason instead of --dry-run it is settled: "+
							"rows that are not known as published are published once more, "+
							"sequences go on after what is there.\n", done.Moved)
					return err
				}
				return tellRecover(out, done)
			})
		},
	}
	connect.StoreFlags(c, &schema, &asJSON)
	f := c.Flags()
	f.StringVar(&o.Reason, "reason", "", "why; it is kept in skald_audit")
	f.StringVar(&o.Author, "by", connect.Whoami(), "who does it, for the audit")
	f.BoolVar(&o.DryRun, "dry-run", false, "say what moved, and do nothing")
	f.BoolVar(&sure, "yes", false, "do not ask")
	return c
}

// recovered is what --json prints: its names are stable.
type recovered struct {
	DryRun     bool   `json:"dry_run"`
	Moved      string `json:"moved"`
	Covered    int64  `json:"covered"`
	Again      int64  `json:"again"`
	Renumbered int64  `json:"renumbered"`
	Shards     int    `json:"shards"`
	Raised     int    `json:"raised"` // sequences
}

func tellRecover(out io.Writer, done store.Recovered) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "moved       %s\n", done.Moved)
	if done.Shards > 0 {
		fmt.Fprintf(w,
			"published   %d rows, which stay as they are\nagain       %d rows, of which %d got new numbers\n"+
				"shards      %d, free\n", done.Covered, done.Again, done.Renumbered, done.Shards)
	}
	if done.Raised > 0 {
		fmt.Fprintf(w, "sequences   %d, which go on after what consumers keep\n", done.Raised)
	}
	fmt.Fprintln(w, "\nStart relays and consumers again.")
	return w.Flush()
}

// outboxesRecover looks, asks and does it.
func outboxesRecover(ctx context.Context, db operate.Recoverer, errs io.Writer, sure bool,
	o operate.Order) (store.Recovered, error) {
	look, err := operate.Recover(ctx, db, operate.Order{DryRun: true})
	if err == nil && !o.DryRun && !sure {
		err = confirm(ctx, errs, look.Moved)
	}
	if err != nil || o.DryRun {
		return look, err
	}
	return operate.Recover(ctx, db, o)
}

// confirm asks whoever sits at the terminal.
func confirm(ctx context.Context, errs io.Writer, saw string) error {
	return connect.Yes(ctx, errs,
		saw+".\nHas no other copy of this database relays, and shall its rows be settled?",
		"outbox recover: "+saw+": if that is meant, and no other copy of it has relays, add --yes")
}
