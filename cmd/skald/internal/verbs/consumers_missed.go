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

const missedAbout = `Acknowledges the loss of messages that the broker removed before a consumer read them, by retention or a
purge. Run the command after the producer has published them again, for example. It lists them first.
Afterwards skald doctor does not report these losses, but it reports later losses.`

type acknowledging struct {
	schema, consumer, reason, by string
	asJSON, dry, sure            bool
}

func missedCommand(out, errs io.Writer) *cobra.Command {
	var a acknowledging
	c := &cobra.Command{Use: "acknowledge-missed",
		Short: "Acknowledge the loss of messages that the broker removed unread", Long: missedAbout,
		Args: cobra.NoArgs}
	connect.StoreFlags(c, &a.schema, &a.asJSON)
	f := c.Flags()
	connect.Filter(f, &a.consumer, "consumer", "consumer `GROUP` (default: the only one with losses)")
	connect.AuditFlags(f, &a.reason, &a.by)
	f.BoolVar(&a.dry, "dry-run", false, "list the losses, and change nothing")
	f.BoolVar(&a.sure, "yes", false, "do not ask for confirmation")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !a.dry && strings.TrimSpace(a.reason) == "" {
			return &cli.UsageError{What: "why? Give --reason"}
		}
		return withKnower(c, a.schema, a.dry, func(ctx context.Context, k knower) error {
			if err := a.run(ctx, out, errs, k); err != nil {
				return fmt.Errorf("consumer acknowledge-missed: %w", err)
			}
			return nil
		})
	}
	return c
}

func (a *acknowledging) run(ctx context.Context, out, errs io.Writer, db operate.AuditStore) error {
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
		err = connect.Yes(ctx, errs, fmt.Sprintf("%d losses of %s.\nAre they all settled?",
			len(notes), a.consumer),
			fmt.Sprintf(
				"%d losses of %s: list them with --dry-run; if all are settled, add --yes",
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
		reasons := []string{}
		for _, n := range notes {
			reasons = append(reasons, n.Reason)
		}
		return cli.JSON(out).Encode(map[string]any{"consumer": a.consumer, "missed": reasons,
			"acknowledged": !a.dry})
	case a.dry:
		return nil
	}
	_, err = fmt.Fprintf(out, "The losses of %s so far are acknowledged.\n", a.consumer)
	return err
}

// choose returns the losses of the selected consumer. It returns an error if there are none.
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
			&cli.NoneError{What: fmt.Sprintf("consumer %s has no unacknowledged losses; these consumers have some: %s",
				a.consumer, strings.Join(names, ", "))}
	}
	return nil, &cli.NoneError{What: "no consumer has unacknowledged losses"}
}
