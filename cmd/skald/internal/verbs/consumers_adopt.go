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

const adoptGroupAbout = `Gives a consumer's group at the broker to this database. Kafka and NATS keep which database a group belongs to, and refuse the
consumers of another one: a second service of the same name, or one with the wrong database, would take its messages away. A copy
by pg_dump and an upgrade by pg_upgrade are another database, too. The log of the refused consumer says which database has the
group: --from. Stop the consumers of that one first. The consumer then begins at its checkpoints, and where it has none at the
oldest retained message. It is noted who did it and why.`

type groupAdoption struct {
	operate.Order
	schema, consumer, from string
	asJSON                 bool
}

func adoptGroupCommand(out io.Writer) *cobra.Command {
	var a groupAdoption
	c := &cobra.Command{Use: "adopt", Short: "Give a consumer's group at the broker to this database",
		Long: adoptGroupAbout, Args: cobra.NoArgs}
	connect.StoreFlags(c, &a.schema, &a.asJSON)
	f := c.Flags()
	f.String("broker", "",
		"kafka:// or nats://host:port[,host:port][?option=value&…]; SKALD_BROKER stands for it")
	connect.Filter(f, &a.consumer, "consumer", "the consumer group")
	f.StringVar(&a.from, "from", "", "the database that has the group, as the refused consumer's log says")
	f.StringVar(&a.Reason, "reason", "", "why; it is noted")
	f.StringVar(&a.Author, "by", connect.Whoami(), "who does it, for the audit")
	f.BoolVar(&a.DryRun, "dry-run", false, "print the database that would get the group; do not ask the broker")
	c.RunE = func(c *cobra.Command, _ []string) error { return a.run(c, out) }
	return c
}

func (a *groupAdoption) run(c *cobra.Command, out io.Writer) error {
	url := connect.From(c, "broker", "SKALD_BROKER")
	switch {
	case a.consumer == "":
		return &cli.UsageError{What: "which consumer? Give --consumer"}
	case a.from == "":
		return &cli.UsageError{What: "from which database? Give --from, as the refused consumer's log says"}
	case url == "":
		return &cli.UsageError{What: "at which broker? Give --broker, or SKALD_BROKER"}
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
		db, ok := k.(operate.Named)
		if !ok {
			return fmt.Errorf("inbox adopt: %T has no name", k)
		}
		asking, cancel := context.WithTimeout(ctx, connect.BrokerPatience)
		defer cancel()
		err := operate.AdoptInbox(asking, db, b, a.consumer, a.from, a.Order)
		if errors.Is(err, broker.ErrUnsupported) {
			return &cli.UsageError{What: err.Error()}
		}
		if err != nil {
			return fmt.Errorf("inbox adopt: %w", err)
		}
		return a.tell(asking, out, db)
	})
}

// tell prints the new owner of the group.
func (a *groupAdoption) tell(ctx context.Context, out io.Writer, db operate.Named) error {
	if a.asJSON {
		return json.NewEncoder(out).Encode(map[string]any{"consumer": a.consumer, "adopted_from": a.from,
			"dry_run": a.DryRun})
	}
	if !a.DryRun {
		_, err := fmt.Fprintf(out, "%s belongs to this database.\n", a.consumer)
		return err
	}
	is, err := db.Database(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s would belong to %s (%s), if the broker has it as that of %s.\n", a.consumer,
		is.Name, is.ID, a.from)
	return err
}
