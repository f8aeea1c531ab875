package verbs

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

const exportAbout = `Prints dead letters as JSON lines, byte for byte: keys, payloads, headers and diagnostics. They stay in
the database. skald dead import stores the lines in this or another database. The lines have payloads:
protect the file like the database.`

func exportCommand(out io.Writer) *cobra.Command {
	w := &wanted{dead: true}
	c := &cobra.Command{Use: "export", Short: "Print dead letters as JSON lines, for skald dead import",
		Long: exportAbout, Args: cobra.NoArgs}
	w.flags(c, false)
	c.Flags().Lookup("limit").Usage = "list at most `N`; 0 lists all"
	c.Flags().Lookup("limit").DefValue, w.limit = "0", 0
	c.RunE = func(c *cobra.Command, _ []string) error {
		lines := bufio.NewWriter(out)
		err := w.each(c, false, func(p *store.Parked) error { return operate.WriteLetter(lines, p) })
		return errors.Join(err, lines.Flush())
	}
	return c
}

const keptImportAbout = `Stores each line of skald dead export as a dead letter of its consumer, in the order of the file. FILE may
be - for standard input.

The command lists the messages that it leaves out:

  finished, kept already   so that a second import changes nothing
  too old                  older than the retention of marks, so it may have been handled; see --too-old
  at a call                an external call is in progress: redrive the message in the old database`

func keptImportCommand(out, errs io.Writer) *cobra.Command {
	w, tooOld := &wanted{dead: true}, false
	c := &cobra.Command{Use: "import FILE",
		Short: "Store exported dead letters in this or another database", Long: keptImportAbout,
		Args: cobra.ExactArgs(1)}
	connect.ListFlags(c, &w.Schema, &w.JSON)
	f := c.Flags()
	f.BoolVar(&tooOld, "too-old", false, "also import messages older than the retention of marks")
	w.ChangeFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := w.Reasoned("import"); err != nil {
			return err
		}
		file, err := spooled(args[0], c.InOrStdin())
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // it was only read
		left := func(l operate.LeftLetter) error { return tellLeft(out, w, l) }
		for _, err := range lettersOf(file) { // report an invalid file even without a database
			if err != nil {
				return err
			}
		}
		return w.write(c, func(ctx context.Context, k keeper) error {
			r, err := importLetters(ctx, k, lettersOf(file), tooOld, left, w.Order(errs, "import"))
			if err != nil {
				return err
			}
			return tellBulk(out, w, "import", r)
		})
	}
	return c
}

func importLetters(ctx context.Context, k keeper, letters iter.Seq2[*store.Parked, error], tooOld bool,
	left func(operate.LeftLetter) error, o operate.Order) (operate.Report, error) {
	switch db := k.(type) {
	case store.Driver[pgx.Tx]:
		return operate.Import(ctx, db, letters, tooOld, left, o)
	case store.Driver[*sql.Tx]:
		return operate.Import(ctx, db, letters, tooOld, left, o)
	}
	return operate.Report{}, fmt.Errorf("%T does not support an import", k)
}

// lettersOf returns the dead letters of the file. Each iteration reads the file from its beginning.
func lettersOf(file *os.File) iter.Seq2[*store.Parked, error] {
	return func(yield func(*store.Parked, error) bool) {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			yield(nil, err)
			return
		}
		operate.ReadLetters(file)(yield)
	}
}

// spooled opens the file with this name. For the name - it copies standard input to a temporary file, because
// an import reads the file several times.
func spooled(name string, in io.Reader) (*os.File, error) {
	if name != "-" {
		file, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			err = &cli.NoneError{What: "there is no file " + name}
		}
		return file, err
	}
	file, err := os.CreateTemp("", "skald-import-")
	if err != nil {
		return nil, err
	}
	if err = os.Remove(file.Name()); err == nil {
		_, err = io.Copy(file, in)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("copy standard input to a file: %w", err)
	}
	return file, nil
}

// tellLeft prints a dead letter that was not imported, and the reason.
func tellLeft(out io.Writer, w *wanted, l operate.LeftLetter) error {
	if w.JSON {
		return cli.JSON(out).Encode(l)
	}
	_, err := fmt.Fprintf(out, "left\t%s\t%s\t%s\n", l.Why, l.Consumer, cli.Line(l.ID))
	return err
}
