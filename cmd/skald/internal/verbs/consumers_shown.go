package verbs

import (
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

const showAbout = `Says what a consumer knows of a message: whether it was taken and what was answered; whether it is parked, at a call to the outside,
or a dead letter, and why; and whether a message of that id is in quarantine, with its payload.

A message is known by its source and its id. Without --source it is looked for among what is kept, and else taken for a key, which has none.`

func showCommand(out io.Writer) *cobra.Command {
	var schema, consumer, source string
	var asJSON bool
	c := &cobra.Command{Use: "show ID", Short: "What a consumer knows of a message", Long: showAbout,
		Args: cobra.ExactArgs(1)}
	connect.StoreFlags(c, &schema, &asJSON)
	connect.Filter(c.Flags(), &consumer, "consumer",
		"the consumer group, or the scope of a key (default: the consumer of the database, where it knows one)")
	c.Flags().StringVar(&source, "source", "",
		"the message's source (default: that of the one that is kept; a key has none)")
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
			if asJSON {
				return cli.JSON(out).Encode(shown)
			}
			return tellShown(out, &shown)
		})
	}
	return c
}

// onlyConsumer is the consumer of a database that knows one.
func onlyConsumer(ctx context.Context, db store.Teller) (string, error) {
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
		return "", &cli.UsageError{What: "which consumer? This database knows of none yet: give --consumer"}
	}
	return "", &cli.UsageError{What: "which consumer? Give --consumer, one of " + strings.Join(all, ", ")}
}

func tellShown(out io.Writer, s *operate.Knowledge) error {
	w := cli.Table(out)
	fmt.Fprintf(w, "%s\t%s\t%s\n", cli.Line(s.ID), s.Status, cli.Line(s.Reason))
	if s.Code != 0 || s.Result != "" {
		fmt.Fprintf(w, "answer\t%d\t%s\n", s.Code, cli.Line(s.Result))
	}
	if k := s.Kept; k != nil {
		fmt.Fprintf(w, "kept\t%s since %s\t%s %s, %d attempts: %s\n", s.Status, cli.Time(k.Since),
			k.Topic, cli.Line(k.Type), k.Attempts, cli.FirstLine(k.LastError))
	}
	if s.Status == "unknown" && s.Source == "" {
		fmt.Fprintln(w, "without a source nothing is known of a message: give --source")
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
			cli.Time(q.At), q.Topic, cli.Line(q.Type), len(q.Data), state)
	}
	return w.Flush()
}
