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

const adoptAbout = `Writes down, as JSON, how the rows of an outbox table that is there make messages. Look it over, and give it to
skald relay --table FILE, which carries the table as it stands. Notes about what is a guess go to standard error. It changes nothing.

  skald adopt outbox --print --store URL > outbox.json`

// Adopt is skald adopt.
func Adopt(out, errs io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "adopt", Short: "Write down how an outbox table that is there makes messages",
		Long: adoptAbout}
	c.AddCommand(adoptOutboxCommand(out, errs))
	return c
}

func adoptOutboxCommand(out, errs io.Writer) *cobra.Command {
	var table string
	var show bool
	c := &cobra.Command{Use: "outbox", Short: "Print a column map for an outbox table", Long: adoptAbout,
		Args: cobra.NoArgs}
	f := c.Flags()
	f.String("store", "", "postgres://…; SKALD_STORE stands for it")
	f.StringVar(&table, "table", "",
		"its name, outbox or schema.outbox; a part that has a dot itself in double quotes (default: the only table that is called an outbox)")
	f.BoolVar(&show, "print", false, "print it")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !show {
			return &cli.UsageError{What: "give --print: the map is printed, and nothing is changed"}
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
