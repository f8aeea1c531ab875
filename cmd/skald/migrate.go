package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/examples/shop/place"
)

var errPending = errors.New("there are migrations to apply: run skald migrate without --check")

const migrateAbout = `Makes Skald's tables, or brings them up to date. It changes nothing that is up to date, and two at once do no harm.

Stores: sqlite:FILE, postgres://…`

func migrateCommand(out io.Writer) *cobra.Command {
	var schema, source string
	var check, script bool
	c := &cobra.Command{
		Use: "migrate", Short: "Make the tables, or bring them up to date", Long: migrateAbout, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			db, err := openDatabase(from(c, "store", "SKALD_STORE"), schema, source)
			switch {
			case err != nil:
				return err
			case check && script:
				return &place.UsageError{What: "--check or --print, not both"}
			case script:
				return printScript(out, db)
			case check:
				return checkPending(c, out, db)
			}
			did, err := db.migrate(c.Context())
			if err != nil {
				return err
			}
			return list(out, "applied", did)
		},
	}
	f := c.Flags()
	f.String("store", "", "sqlite:FILE or postgres://…; SKALD_STORE stands for it")
	f.StringVar(&schema, "schema", "", "where the tables are; PostgreSQL only (default: public)")
	f.StringVar(&source, "source", "", "who says the messages of this database, for ever (default: /DATABASE/SCHEMA)")
	f.BoolVar(&check, "check", false, "change nothing; exit code 8 if there is work to do")
	f.BoolVar(&script, "print", false, "change nothing; print the SQL that makes all tables")
	return c
}

func printScript(out io.Writer, db database) error {
	text, err := db.script()
	if err == nil {
		_, err = io.WriteString(out, text)
	}
	return err
}

func checkPending(c *cobra.Command, out io.Writer, db database) error {
	todo, err := db.pending(c.Context())
	if err == nil {
		err = list(out, "pending", todo)
	}
	if err == nil && len(todo) > 0 {
		err = &place.FailedError{Err: errPending}
	}
	return err
}

func list(out io.Writer, what string, names []string) error {
	if len(names) == 0 {
		_, err := fmt.Fprintln(out, "up to date")
		return err
	}
	for _, name := range names {
		if _, err := fmt.Fprintln(out, what, name); err != nil {
			return err
		}
	}
	return nil
}
