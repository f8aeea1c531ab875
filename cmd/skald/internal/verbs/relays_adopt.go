package verbs

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/foreign"
)

const adoptAbout = `Prints a JSON map from the columns of an existing outbox table to messages. It changes nothing.

Check the map, then give it to skald relay --table FILE: the relay publishes the table as it is.
Standard error lists the columns that are guesses.`

// Adopt returns skald adopt.
func Adopt(out, errs io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "adopt", Short: "Map an existing outbox table to messages"}
	c.AddCommand(adoptOutboxCommand(out, errs))
	return c
}

func adoptOutboxCommand(out, errs io.Writer) *cobra.Command {
	var table string
	var show bool
	c := &cobra.Command{Use: "outbox", Short: "Print a column map for an outbox table", Long: adoptAbout,
		Args: cobra.NoArgs}
	f := c.Flags()
	f.String("store", "", "`URL` of the database: postgres://… (default: SKALD_STORE)")
	f.StringVar(&table, "table", "",
		"`NAME` of the table: outbox or schema.outbox, with double quotes around a part that has a dot (default: the only table named like an outbox)")
	f.BoolVar(&show, "print", false, "print the map (required)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !show {
			return &cli.UsageError{What: "give --print: the command prints the map, and changes nothing"}
		}
		db, err := Open(connect.From(c, "store", "SKALD_STORE"), "", "")
		if err != nil {
			return err
		}
		return tableState(printTable(c.Context(), db, table, out, errs))
	}
	return c
}

func printTable(ctx context.Context, db Database, name string, out, errs io.Writer) error {
	plain, done, err := plain(ctx, db, 1)
	if err != nil {
		return err
	}
	defer done()
	t, notes, err := foreign.Suggest(ctx, plain, name)
	if err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintln(errs, "skald: "+note)
	}
	enc := cli.JSON(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(t)
}
