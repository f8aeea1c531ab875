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

const renameAbout = `Moves all records of a consumer to a new name in one transaction: marks with their answers, positions,
controls, parked messages, dead letters, quarantine, steps, floors and types. The old group at the
broker remains.

Stop all processes of the consumer first. The command fails if a process of either name sent a heartbeat
within the last 3 minutes, or if the new name has records. On RabbitMQ and NATS it also fails if the broker
has messages for the old name. It needs the role that migrates.`

type renaming struct {
	schema, reason, by string
	asJSON, dry, sure  bool
}

func renameCommand(out, errs io.Writer) *cobra.Command {
	var r renaming
	c := &cobra.Command{Use: "rename OLD NEW", Short: "Rename a consumer",
		Long: renameAbout, Args: cobra.ExactArgs(2)}
	connect.StoreFlags(c, &r.schema, &r.asJSON)
	f := c.Flags()
	f.String("broker", "",
		"`URL` of the consumer's broker: kafka://…, nats://… or amqp://… (default: SKALD_BROKER)")
	connect.AuditFlags(f, &r.reason, &r.by)
	f.BoolVar(&r.dry, "dry-run", false, "count the records, and change nothing")
	f.BoolVar(&r.sure, "yes", false, "do not ask for confirmation")
	c.RunE = func(c *cobra.Command, args []string) error { return r.run(c, out, errs, args[0], args[1]) }
	return c
}

func (r *renaming) run(c *cobra.Command, out, errs io.Writer, was, is string) error {
	url := connect.From(c, "broker", "SKALD_BROKER")
	switch {
	case url == "":
		return &cli.UsageError{What: "which broker? Give --broker, or set SKALD_BROKER"}
	case !r.dry && strings.TrimSpace(r.reason) == "":
		return &cli.UsageError{What: "why? Give --reason"}
	}
	dial, err := connect.Dial(url)
	if err != nil {
		return err
	}
	var at operate.LagReader // nil for Kafka, which stores the same messages for all groups
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
			return fmt.Errorf("consumer rename: %T does not support a rename", k)
		}
		found, err := operate.RenameInbox(ctx, db, at, was, is, operate.Order{DryRun: true})
		if err == nil && !r.dry && !r.sure {
			err = connect.Yes(ctx, errs,
				fmt.Sprintf("%s\nMove all of it to %s?", counted(was, &found.Old), is),
				fmt.Sprintf("%s: count it with --dry-run; to move it, add --yes", counted(was, &found.Old)))
		}
		if err == nil && !r.dry {
			found, err = operate.RenameInbox(ctx, db, at, was, is,
				operate.Order{Author: r.by, Reason: r.reason})
		}
		if err != nil {
			return fmt.Errorf("consumer rename: %w", err)
		}
		return r.tell(out, was, is, &found)
	})
}

func counted(was string, b *store.ConsumerRows) string {
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
	word := "all of it is moved to " + is
	if r.dry {
		word = "all of it would move to " + is
	}
	_, err := fmt.Fprintf(out, "%s: %s.\n", counted(was, b), word)
	return err
}
