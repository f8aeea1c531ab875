package verbs

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

const missedAbout = `Notes that somebody has seen to the messages that the broker removed before a consumer had read them, by retention or a
purge: that they were sent again, or are not needed. It lists them first, and skald doctor lists them no more. What is
removed afterwards is listed again. It is noted who acknowledged it and why.`

type acknowledging struct {
	schema, consumer, reason, by string
	asJSON, dry, sure            bool
}

func missedCommand(out, errs io.Writer) *cobra.Command {
	var a acknowledging
	c := &cobra.Command{Use: "acknowledge-missed",
		Short: "Note that messages which the broker removed unread are seen to", Long: missedAbout,
		Args: cobra.NoArgs}
	connect.StoreFlags(c, &a.schema, &a.asJSON)
	f := c.Flags()
	connect.Filter(f, &a.consumer, "consumer", "the consumer group (default: the one that missed something)")
	f.StringVar(&a.reason, "reason", "", "why; it is noted")
	f.StringVar(&a.by, "by", connect.Whoami(), "who does it, for the audit")
	f.BoolVar(&a.dry, "dry-run", false, "list them, and note nothing")
	f.BoolVar(&a.sure, "yes", false, "do not ask")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !a.dry && strings.TrimSpace(a.reason) == "" {
			return &cli.UsageError{What: "why? Give --reason"}
		}
		return withKnower(c, a.schema, a.dry, func(ctx context.Context, k knower) error {
			if err := a.run(ctx, out, errs, k); err != nil {
				return fmt.Errorf("inbox acknowledge-missed: %w", err)
			}
			return nil
		})
	}
	return c
}

func (a *acknowledging) run(ctx context.Context, out, errs io.Writer, db operate.Auditor) error {
	notes, err := operate.Missed(ctx, db)
	if err == nil {
		notes, err = a.choose(notes)
	}
	if err != nil {
		return err
	}
	if !a.asJSON {
		for _, n := range notes {
			fmt.Fprintf(out, "%s  %s\n", cli.Time(n.At), cli.Line(n.Reason))
		}
	}
	if !a.dry && !a.sure {
		err = connect.Yes(ctx, errs, fmt.Sprintf("%d notes of what %s missed.\nAre they all seen to?",
			len(notes), a.consumer),
			fmt.Sprintf(
				"%d notes of what %s missed: look at them with --dry-run; if all are seen to, add --yes",
				len(notes), a.consumer))
	}
	if err == nil && !a.dry {
		err = operate.AcknowledgeMissed(ctx, db, a.consumer, notes[len(notes)-1].Number,
			operate.Order{Author: a.by, Reason: a.reason})
	}
	switch {
	case err != nil:
		return err
	case a.asJSON:
		said := []string{}
		for _, n := range notes {
			said = append(said, n.Reason)
		}
		return cli.JSON(out).Encode(map[string]any{"consumer": a.consumer, "missed": said,
			"acknowledged": !a.dry})
	case a.dry:
		return nil
	}
	_, err = fmt.Fprintf(out, "What %s missed so far is acknowledged.\n", a.consumer)
	return err
}

// choose is the notes of the consumer that is meant. There is at least one.
func (a *acknowledging) choose(notes []store.Audit) (chosen []store.Audit, err error) {
	var names []string
	for _, n := range notes {
		if !slices.Contains(names, n.Consumer) {
			names = append(names, n.Consumer)
		}
	}
	if a.consumer == "" && len(names) > 1 {
		return nil, &cli.UsageError{What: "which consumer? Give --consumer, one of " +
			strings.Join(names, ", ")}
	}
	if a.consumer == "" && len(names) == 1 {
		a.consumer = names[0]
	}
	for _, n := range notes {
		if n.Consumer == a.consumer {
			chosen = append(chosen, n)
		}
	}
	switch {
	case len(chosen) > 0:
		return chosen, nil
	case len(names) > 0:
		return nil,
			&cli.NoneError{What: fmt.Sprintf("consumer %s missed nothing that is not acknowledged; %s did",
				a.consumer, strings.Join(names, ", "))}
	}
	return nil, &cli.NoneError{What: "no consumer missed anything that is not acknowledged"}
}
