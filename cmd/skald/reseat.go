package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/store"
)

const reseatAbout = `Settles the outbox of a database that moved: one that was restored elsewhere, went back in time, or was switched over
by logical replication. Its relays have stopped and said what they saw. Afterwards each retained row that is not known as
published is published once more, in order; inboxes drop repeats. Sequences that have not come to what consumers keep, as behind a
logical switch-over, which copies none, go on behind it: consumers have stopped, too, and said so.

Make sure first that no other copy of the database has relays: both would publish. Writers may go on; they are locked out
for a moment at the end. It may be run as often as you like, also after it was ended half way; where nothing moved it
does nothing, with exit code 5. It needs the rights of whoever migrated the tables.`

// errUnmoved: there is nothing to settle.
var errUnmoved = errors.New("outbox reseat: nothing moved: the lanes speak of this database, and it has all that they have come to")

func reseatCommand(out, errs io.Writer) *cobra.Command {
	var schema, reason, by string
	var dry, sure, asJSON bool
	c := &cobra.Command{
		Use: "reseat", Short: "Settle a database that moved", Long: reseatAbout, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !dry && strings.TrimSpace(reason) == "" {
				return &place.UsageError{What: "why? Give --reason"}
			}
			db, err := openDatabase(from(c, "store", "SKALD_STORE"), schema, "")
			if err != nil {
				return err
			}
			ask := func(saw string) error { return confirm(c.Context(), errs, saw) }
			if sure {
				ask = func(string) error { return nil }
			}
			if dry {
				ask = nil
			}
			done, err := reseat(c.Context(), db, ask, store.Audit{Who: by, Why: reason, What: "reseat"})
			switch {
			case err != nil:
				return err
			case asJSON:
				return json.NewEncoder(out).Encode(reseated{dry, done.Moved, done.Covered, done.Again, done.Renumbered, done.Lanes, done.Raised})
			case dry:
				_, err = fmt.Fprintf(out, "moved       %s\n\nWith a --reason instead of --dry-run it is settled: rows that are not known as published are published once more, sequences go on behind what is there.\n", done.Moved)
				return err
			}
			return tellReseat(out, done)
		},
	}
	f := c.Flags()
	f.String("store", "", "sqlite:FILE or postgres://…; SKALD_STORE stands for it")
	f.StringVar(&schema, "schema", "", "where the tables are; PostgreSQL only (default: public)")
	f.StringVar(&reason, "reason", "", "why; it is kept in skald_audit")
	f.StringVar(&by, "by", whoami(), "who; the same")
	f.BoolVar(&dry, "dry-run", false, "say what moved, and do nothing")
	f.BoolVar(&sure, "yes", false, "do not ask")
	f.BoolVar(&asJSON, "json", false, "print one object and nothing else")
	return c
}

// reseated is what --json prints: its names are stable.
type reseated struct {
	DryRun     bool   `json:"dry_run"`
	Moved      string `json:"moved"`
	Covered    int64  `json:"covered"`
	Again      int64  `json:"again"`
	Renumbered int64  `json:"renumbered"`
	Lanes      int    `json:"lanes"`
	Raised     int    `json:"raised"` // sequences
}

func tellReseat(out io.Writer, done store.Reseated) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "moved       %s\n", done.Moved)
	if done.Lanes > 0 {
		fmt.Fprintf(w, "published   %d rows, which stay as they are\nagain       %d rows, of which %d got new numbers\nlanes       %d, free\n", done.Covered, done.Again, done.Renumbered, done.Lanes)
	}
	if done.Raised > 0 {
		fmt.Fprintf(w, "sequences   %d, which go on behind what consumers keep\n", done.Raised)
	}
	fmt.Fprintln(w, "\nStart relays and consumers again.")
	return w.Flush()
}

// reseat looks, asks and does it; without ask it only looks.
func reseat(ctx context.Context, db database, ask func(saw string) error, note store.Audit) (done store.Reseated, err error) {
	all, end, err := db.stores(ctx, rooms{})
	if err != nil {
		return done, err
	}
	defer end()
	s, ok := all[0].(interface {
		Reseat(ctx context.Context, note *store.Audit) (store.Reseated, error)
	})
	if !ok {
		return done, fmt.Errorf("outbox reseat: %T cannot", all[0])
	}
	look, err := s.Reseat(ctx, nil)
	if err == nil && look.Moved == "" {
		err = errUnmoved
	}
	if err != nil || ask == nil {
		return look, err
	}
	if err := ask(look.Moved); err != nil {
		return done, err
	}
	if done, err = s.Reseat(ctx, &note); err == nil && done.Moved == "" {
		err = errUnmoved // somebody else has just done it
	}
	return done, err
}

// confirm asks whoever sits at the terminal.
func confirm(ctx context.Context, errs io.Writer, saw string) error {
	return askFirst(ctx, errs, saw+".\nHas no other copy of this database relays, and shall its rows be settled?",
		"outbox reseat: "+saw+": if that is meant, and no other copy of it has relays, add --yes")
}

// askFirst wants a yes from whoever sits at the terminal. Where nobody does, or it is another word, the error says what
// to do.
func askFirst(ctx context.Context, errs io.Writer, question, otherwise string) error {
	unsure := &place.UsageError{What: otherwise}
	if !terminal(os.Stdin) {
		return unsure
	}
	fmt.Fprintf(errs, "%s Type yes: ", question)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n') // at its end there is no answer
		answer <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case said := <-answer:
		if said == "yes" {
			return nil
		}
		return unsure
	}
}
