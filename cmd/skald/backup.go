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

const backupAbout = `Copies a SQLite file to a new file while services write it. The copy holds one moment, is checked, and is on the disk
before it gets its name. A plain copy of a file that somebody writes is no backup.

For PostgreSQL use its own tools: pg_basebackup, or pg_dump --serializable-deferrable.`

func backupCommand(out io.Writer) *cobra.Command {
	var to string
	var asJSON bool
	c := &cobra.Command{Use: "backup", Short: "Copy a SQLite file while services write it", Long: backupAbout,
		Args: cobra.NoArgs}
	f := c.Flags()
	f.String("store", "", "sqlite:FILE; SKALD_STORE stands for it")
	f.StringVar(&to, "to", "", "the file to make; it must not be there")
	f.BoolVar(&asJSON, "json", false, "print one object and nothing else")
	c.RunE = func(c *cobra.Command, _ []string) error {
		at := connect.From(c, "store", "SKALD_STORE")
		path, isFile := strings.CutPrefix(at, "sqlite:")
		switch {
		case at == "":
			return &cli.UsageError{What: "which database? Give --store, or SKALD_STORE"}
		case !isFile || path == "":
			return &cli.UsageError{
				What: "backup is for sqlite:FILE: for PostgreSQL use pg_basebackup or pg_dump"}
		case to == "":
			return &cli.UsageError{What: "where to? Give --to FILE"}
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
