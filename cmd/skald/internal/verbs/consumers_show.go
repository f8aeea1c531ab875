package verbs

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

const showAbout = `Shows the state of a message at a consumer: done, rejected, barred, parked, calling or dead, with its
answer, its last error and its copies in quarantine. The exit code is 4 if the consumer has no record.

A message has a source and an id. Without --source the command searches parked messages and dead
letters by id. If there is none, it looks up an idempotency key, which has no source.`

func showCommand(out io.Writer) *cobra.Command {
	var schema, consumer, source string
	var asJSON bool
	c := &cobra.Command{Use: "show ID", Short: "Show the record of one message at a consumer",
		Long: showAbout,
		Args: cobra.ExactArgs(1)}
	connect.StoreFlags(c, &schema, &asJSON)
	connect.Filter(c.Flags(), &consumer, "consumer",
		"consumer `GROUP`, or scope of an idempotency key (default: the only consumer of the database)")
	c.Flags().StringVar(&source, "source", "",
		"`SOURCE` of the message (default: see above)")
	c.RunE = func(c *cobra.Command, args []string) error {
		return withKnower(c, schema, true, func(ctx context.Context, k knower) (err error) {
			if consumer == "" {
				if consumer, err = onlyConsumer(ctx, k); err != nil {
					return err
				}
			}
			shown, err := operate.Show(ctx, k, consumer, store.Identity{Source: source, ID: args[0]},
				c.Flags().Changed("source"))
			if err != nil {
				return fmt.Errorf("inbox show: %w", err)
			}
			if shown.Status == "unknown" && len(shown.Quarantine) == 0 {
				return unknownMessage(ctx, k, &shown)
			}
			if asJSON {
				return cli.JSON(out).Encode(shown)
			}
			return tellShown(out, &shown)
		})
	}
	return c
}

// unknownMessage returns the error for a message without a record.
func unknownMessage(ctx context.Context, db store.StatusReader, s *operate.MessageState) error {
	if err := checkConsumer(ctx, db, s.Consumer); err != nil && !strings.HasPrefix(s.Consumer, httpidem.Scope("")) {
		return err
	}
	none := fmt.Sprintf("consumer %s has no record of %q", s.Consumer, s.ID)
	if s.Source == "" {
		none += ": to find a finished message, give its --source"
	}
	return &cli.NoneError{What: none}
}

// onlyConsumer returns the only consumer of a database.
func onlyConsumer(ctx context.Context, db store.StatusReader) (string, error) {
	b, err := store.ReadBacklog(ctx, db)
	var all []string
	for _, c := range b.Consumers {
		if len(c.Topics) > 0 {
			all = append(all, c.Name)
		}
	}
	switch {
	case err != nil:
		return "", err
	case len(all) == 1:
		return all[0], nil
	case len(all) == 0:
		return "", &cli.UsageError{What: "which consumer? This database has none yet: give --consumer"}
	}
	return "", &cli.UsageError{What: "which consumer? Give --consumer, one of " + strings.Join(all, ", ")}
}

func tellShown(out io.Writer, s *operate.MessageState) error {
	w := cli.Table(out)
	fmt.Fprintf(w, "%s\t%s\t%s\n", cli.Line(s.ID), s.Status, cli.Line(s.Reason))
	if s.Code != 0 || s.Result != "" {
		fmt.Fprintf(w, "answer\t%d\t%s\n", s.Code, cli.Line(s.Result))
	}
	if k := s.Kept; k != nil {
		fmt.Fprintf(w, "kept\t%s since %s\t%s %s, %d attempts: %s\n", s.Status, cli.Time(k.Since),
			k.Topic, cli.Line(k.Type), k.Attempts, cli.FirstLine(k.LastError))
		for i := range k.Failures {
			fmt.Fprintf(w, "failed\t%s\n", failedText(&k.Failures[i]))
		}
	}
	for _, q := range s.Quarantine {
		state := "waits"
		switch {
		case q.TakenAt != nil:
			state = "taken " + cli.Time(*q.TakenAt)
		case q.AdmittedAt != nil:
			state = "admitted by " + q.AdmittedBy + ": " + q.Reason
		}
		fmt.Fprintf(w, "quarantine %d\t%s since %s\t%s %s, %d bytes: %s\n", q.Number, q.Why,
			cli.Time(q.At), q.Topic, cli.Line(q.Type), q.Bytes, state)
	}
	return w.Flush()
}
