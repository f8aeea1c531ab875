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

const renameAbout = `Gives all that the database keeps of a consumer to a new name, in one transaction: marks with their answers, positions,
controls, parked messages and dead letters, quarantine, steps, floors, types. Stop all processes of the consumer first: it refuses
while one of either name was heard of within 3 minutes, where the new name has done anything, and on RabbitMQ and NATS while the
broker holds messages for the old one. It needs the role that migrates. What the broker keeps of the old group stays there.`

type renaming struct {
	schema, reason, by string
	asJSON, dry, sure  bool
}

func renameCommand(out, errs io.Writer) *cobra.Command {
	var r renaming
	c := &cobra.Command{Use: "rename OLD NEW", Short: "Give what is kept of a consumer to a new name",
		Long: renameAbout, Args: cobra.ExactArgs(2)}
	connect.StoreFlags(c, &r.schema, &r.asJSON)
	f := c.Flags()
	f.String("broker", "",
		"kafka://, amqp:// or nats://…, where the consumer reads; SKALD_BROKER stands for it")
	f.StringVar(&r.reason, "reason", "", "why; it is noted")
	f.StringVar(&r.by, "by", connect.Whoami(), "who does it, for the audit")
	f.BoolVar(&r.dry, "dry-run", false, "count what would be moved, and change nothing")
	f.BoolVar(&r.sure, "yes", false, "do not ask")
	c.RunE = func(c *cobra.Command, args []string) error { return r.run(c, out, errs, args[0], args[1]) }
	return c
}

func (r *renaming) run(c *cobra.Command, out, errs io.Writer, was, is string) error {
	url := connect.From(c, "broker", "SKALD_BROKER")
	switch {
	case url == "":
		return &cli.UsageError{What: "at which broker? Give --broker, or SKALD_BROKER"}
	case !r.dry && strings.TrimSpace(r.reason) == "":
		return &cli.UsageError{What: "why? Give --reason"}
	}
	dial, err := connect.Dial(url)
	if err != nil {
		return err
	}
	var at operate.Waiting // Kafka keeps messages for every group
	if redacted(url) != "kafka" {
		b, err := dial()
		if err != nil {
			return err
		}
		defer b.Close()
		at = b
	}
	return withKnower(c, r.schema, r.dry, func(ctx context.Context, k knower) error {
		db, ok := k.(operate.RenameStore)
		if !ok {
			return fmt.Errorf("inbox rename: %T renames no consumer", k)
		}
		found, err := operate.RenameInbox(ctx, db, at, was, is, operate.Order{DryRun: true})
		if err == nil && !r.dry && !r.sure {
			err = connect.Yes(ctx, errs, fmt.Sprintf("%s\nShall it be %s's?", counted(was, &found.Old), is),
				fmt.Sprintf("%s: look with --dry-run; if that is meant, add --yes", counted(was, &found.Old)))
		}
		if err == nil && !r.dry {
			found, err = operate.RenameInbox(ctx, db, at, was, is,
				operate.Order{Author: r.by, Reason: r.reason})
		}
		if err != nil {
			return fmt.Errorf("inbox rename: %w", err)
		}
		return r.tell(out, was, is, &found)
	})
}

func counted(was string, b *store.Belongings) string {
	return fmt.Sprintf("%s has %d marks, %d positions, %d controls, %d parked messages, %d dead letters, %d messages in quarantine, %d steps, %d floors, %d types",
		was, b.Marks, b.Positions, b.Controls, b.Parked, b.Dead, b.Quarantined, b.Steps, b.Floors, b.Types)
}

func (r *renaming) tell(out io.Writer, was, is string, found *store.Renamed) error {
	b := &found.Old
	if r.asJSON {
		return cli.JSON(out).Encode(map[string]any{"old": was, "new": is, "renamed": found.Done,
			"dry_run": r.dry, "marks": b.Marks, "positions": b.Positions,
			"controls": b.Controls, "parked": b.Parked, "dead": b.Dead, "quarantined": b.Quarantined,
			"steps": b.Steps, "floors": b.Floors, "types": b.Types})
	}
	word := "it is all " + is + "'s now"
	if r.dry {
		word = "it would all be " + is + "'s"
	}
	_, err := fmt.Fprintf(out, "%s: %s.\n", counted(was, b), word)
	return err
}
