package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/store/sqlitestore"
)

const backupAbout = `Copies a SQLite file to a new file while services write to it. The copy is consistent and checked,
and it is on disk before it gets its name. A plain copy of a file in use is not a backup.

For PostgreSQL use pg_basebackup, or pg_dump --serializable-deferrable.`

func backupCommand(out io.Writer) *cobra.Command {
	var to string
	var asJSON bool
	c := &cobra.Command{Use: "backup", Short: "Copy a SQLite file while services write to it",
		Long: backupAbout,
		Args: cobra.NoArgs}
	f := c.Flags()
	f.String("store", "", "`URL` of the file: sqlite:FILE (default: SKALD_STORE)")
	f.StringVar(&to, "to", "", "new `FILE` for the copy")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, _ []string) error {
		at := connect.From(c, "store", "SKALD_STORE")
		path, isFile := strings.CutPrefix(at, "sqlite:")
		switch {
		case at == "":
			return &cli.UsageError{What: "which database? Give --store, or set SKALD_STORE"}
		case !isFile || path == "":
			return &cli.UsageError{
				What: "backup is for sqlite:FILE: for PostgreSQL use pg_basebackup or pg_dump"}
		case to == "":
			return &cli.UsageError{What: "which new file? Give --to FILE"}
		}
		err := sqlitestore.Backup(c.Context(), path, to)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %w", cli.ErrNone, err)
		}
		if err != nil {
			return err
		}
		made, err := os.Stat(to)
		if err != nil {
			return err
		}
		if asJSON {
			return cli.JSON(out).Encode(map[string]any{"file": to, "bytes": made.Size()})
		}
		_, err = fmt.Fprintf(out, "made %s, %d bytes\n", to, made.Size())
		return err
	}
	return c
}
