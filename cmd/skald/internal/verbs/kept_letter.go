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

const exportAbout = `Prints dead letters as JSON lines, byte for byte: keys, payloads, headers and diagnostics. They stay where they are. skald dead
import reads them again, here or elsewhere. The lines hold payloads: keep the file as you keep the database.`

func exportCommand(out io.Writer) *cobra.Command {
	w := &wanted{dead: true}
	c := &cobra.Command{Use: "export", Short: "Print dead letters as JSON lines, for skald dead import",
		Long: exportAbout, Args: cobra.NoArgs}
	w.flags(c, false)
	c.Flags().Lookup("limit").Usage = "at most so many; 0: all"
	c.Flags().Lookup("limit").DefValue, w.limit = "0", 0
	c.RunE = func(c *cobra.Command, _ []string) error {
		lines := bufio.NewWriter(out)
		err := w.each(c, false, func(p *store.Parked) error { return operate.WriteLetter(lines, p) })
		return errors.Join(err, lines.Flush())
	}
	return c
}

const keptImportAbout = `Reads what skald dead export printed, and keeps each line as a dead letter of its consumer, in the order of the file. What the
consumer has finished, or keeps already, is named and left as it is: a repeat of an import changes nothing. So is what is older than the
consumer's marks are kept, as nobody knows whether it was taken: --too-old imports that, too. And so is one at a call to the outside, of
which nobody would know here: redrive it where it came from. FILE may be - for standard input.`

func keptImportCommand(out, errs io.Writer) *cobra.Command {
	w, tooOld := &wanted{dead: true}, false
	c := &cobra.Command{Use: "import FILE",
		Short: "Keep what skald dead export printed as dead letters, here or elsewhere", Long: keptImportAbout,
		Args: cobra.ExactArgs(1)}
	connect.ListFlags(c, &w.Schema, &w.JSON)
	f := c.Flags()
	f.BoolVar(&tooOld, "too-old", false, "what is older than marks are kept, too")
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
		left := func(l operate.Left) error { return tellLeft(out, w, l) }
		for _, err := range lettersOf(file) { // before a database is asked for
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
	left func(operate.Left) error, o operate.Order) (operate.Report, error) {
	switch db := k.(type) {
	case store.Driver[pgx.Tx]:
		return operate.Import(ctx, db, letters, tooOld, left, o)
	case store.Driver[*sql.Tx]:
		return operate.Import(ctx, db, letters, tooOld, left, o)
	}
	return operate.Report{}, fmt.Errorf("%T takes in nothing", k)
}

// lettersOf reads the file from its beginning, as often as it is gone through.
func lettersOf(file *os.File) iter.Seq2[*store.Parked, error] {
	return func(yield func(*store.Parked, error) bool) {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			yield(nil, err)
			return
		}
		operate.ReadLetters(file)(yield)
	}
}

// spooled is the file of that name; standard input is kept in one, which has no name any more.
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
		return nil, fmt.Errorf("keep standard input in a file: %w", err)
	}
	return file, nil
}

// tellLeft names a letter that is not imported.
func tellLeft(out io.Writer, w *wanted, l operate.Left) error {
	if w.JSON {
		return cli.JSON(out).Encode(l)
	}
	_, err := fmt.Fprintf(out, "left\t%s\t%s\t%s\n", l.Why, l.Consumer, cli.Line(l.ID))
	return err
}
