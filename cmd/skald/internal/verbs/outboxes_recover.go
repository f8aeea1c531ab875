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

const recoverAbout = `Recovers the outbox of a database that was restored elsewhere, went back in time, or was switched over
by logical replication. The relays of such a database have stopped and logged the reason. After the
recovery they publish each retained row that is not recorded as published, in order. Inboxes drop the
duplicates. Sequences continue after the highest number in use, because logical replication does not copy
sequences.

First make sure that no relay runs on another copy of the database: both copies would publish. Services may
write meanwhile; their writes wait for a moment at the end. You can interrupt and repeat the command. If the
database has not moved, it does nothing and exits with code 5. It needs the rights of the role that
migrated the tables.`

func recoverCommand(out, errs io.Writer) *cobra.Command {
	var schema string
	var o operate.Order
	var sure, asJSON bool
	c := &cobra.Command{
		Use: "recover", Short: "Recover the relay's cursors after a database was moved or restored", Long: recoverAbout, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !o.DryRun && strings.TrimSpace(o.Reason) == "" {
				return &cli.UsageError{What: "why? Give --reason"}
			}
			return unchecked(c, schema, func(ctx context.Context, db operate.RecoverStore) error {
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
						"moved       %s\n\nWith --reason instead of --dry-run the relays publish again each row "+
							"that is not known as published, and sequences continue after the highest "+
							"number in use.\n", done.Moved)
					return err
				}
				return tellRecover(out, done)
			})
		},
	}
	connect.StoreFlags(c, &schema, &asJSON)
	f := c.Flags()
	connect.AuditFlags(f, &o.Reason, &o.Author)
	f.BoolVar(&o.DryRun, "dry-run", false, "print what has moved, and change nothing")
	f.BoolVar(&sure, "yes", false, "do not ask for confirmation")
	return c
}

// recovered is the output of --json. The field names are stable.
type recovered struct {
	DryRun     bool   `json:"dry_run"`
	Moved      string `json:"moved"`
	Covered    int64  `json:"covered"`
	Again      int64  `json:"again"`
	Renumbered int64  `json:"renumbered"`
	Shards     int    `json:"shards"`
	Raised     int    `json:"raised"` // the number of sequences that were raised
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
		fmt.Fprintf(w, "sequences   %d, which continue after the highest number in use\n", done.Raised)
	}
	fmt.Fprintln(w, "\nStart relays and consumers again.")
	return w.Flush()
}

// outboxesRecover checks whether the database moved, asks for confirmation, and recovers the outbox.
func outboxesRecover(ctx context.Context, db operate.RecoverStore, errs io.Writer, sure bool,
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

// confirm asks the user at the terminal to confirm the recovery. saw describes the database.
func confirm(ctx context.Context, errs io.Writer, saw string) error {
	return connect.Yes(ctx, errs,
		saw+".\nDoes no other copy of this database have relays? Recover its outbox?",
		"outbox recover: "+saw+": if no other copy of it has relays, add --yes")
}
