package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
)

const adoptGroupAbout = `Assigns a consumer group at the broker to this database. Kafka and NATS record the database of each
group. They refuse consumers of another database, because two databases would each get only a part of the
messages. A restored pg_dump and a database after pg_upgrade count as another database.

The log of the refused consumer has the ID of the group's present database: give that ID as --from. Stop
the consumers of that database first. The consumer then starts at its checkpoints. Without checkpoints, it
starts at the oldest retained message.`

type groupAdoption struct {
	operate.Order
	schema, consumer, from string
	asJSON                 bool
}

func adoptGroupCommand(out io.Writer) *cobra.Command {
	var a groupAdoption
	c := &cobra.Command{Use: "adopt", Short: "Assign a consumer group at the broker to this database",
		Long: adoptGroupAbout, Args: cobra.NoArgs}
	connect.StoreFlags(c, &a.schema, &a.asJSON)
	f := c.Flags()
	f.String("broker", "",
		"`URL` of the broker: kafka://… or nats://… (default: SKALD_BROKER)")
	connect.Filter(f, &a.consumer, "consumer", "consumer `GROUP`")
	f.StringVar(&a.from, "from", "", "`ID` of the database of the group, from the log of the refused consumer")
	connect.AuditFlags(f, &a.Reason, &a.Author)
	f.BoolVar(&a.DryRun, "dry-run", false, "print the database that would get the group; send nothing to the broker")
	c.RunE = func(c *cobra.Command, _ []string) error { return a.run(c, out) }
	return c
}

func (a *groupAdoption) run(c *cobra.Command, out io.Writer) error {
	url := connect.From(c, "broker", "SKALD_BROKER")
	switch {
	case a.consumer == "":
		return &cli.UsageError{What: "which consumer? Give --consumer"}
	case a.from == "":
		return &cli.UsageError{What: "from which database? Give --from with the ID in the log of the refused consumer"}
	case url == "":
		return &cli.UsageError{What: "which broker? Give --broker, or set SKALD_BROKER"}
	case !a.DryRun && strings.TrimSpace(a.Reason) == "":
		return &cli.UsageError{What: "why? Give --reason"}
	}
	dial, err := connect.Dial(url)
	if err != nil {
		return err
	}
	b, err := dial()
	if err != nil {
		return err
	}
	defer b.Close()
	return withKnower(c, a.schema, a.DryRun, func(ctx context.Context, k knower) error {
		db, ok := k.(operate.AdoptStore)
		if !ok {
			return fmt.Errorf("consumer adopt: %T is not supported", k)
		}
		asking, cancel := context.WithTimeout(ctx, connect.BrokerPatience)
		defer cancel()
		err := operate.AdoptInbox(asking, db, b, a.consumer, a.from, a.Order)
		if errors.Is(err, broker.ErrUnsupported) {
			return &cli.UsageError{What: err.Error()}
		}
		if err != nil {
			return fmt.Errorf("consumer adopt: %w", err)
		}
		return a.printResult(asking, out, db)
	})
}

// printResult prints the ID of this database, which now owns the group.
func (a *groupAdoption) printResult(ctx context.Context, out io.Writer, db operate.AdoptStore) error {
	if a.asJSON {
		return json.NewEncoder(out).Encode(map[string]any{"consumer": a.consumer, "adopted_from": a.from,
			"dry_run": a.DryRun})
	}
	if !a.DryRun {
		_, err := fmt.Fprintf(out, "The group %s belongs to this database.\n", a.consumer)
		return err
	}
	is, err := db.Database(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "The group %s would belong to %s (%s), if it belongs to %s at the broker now.\n", a.consumer,
		is.Name, is.ID, a.from)
	return err
}
