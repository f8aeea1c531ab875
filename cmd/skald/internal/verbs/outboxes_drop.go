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

const outboxesDropAbout = `Drops a deferred message of the outbox, which the broker refused (docs/operations.md: SkaldDeferred). No
subscriber receives it. Later messages of its key continue. If a relay is publishing it at this moment,
subscribers may still receive it.

The view skald_outbox_state has the ids and the reasons of the broker. The command needs the rights of a
relay, and INSERT on skald_audit.`

// applier is the part of a store that the command needs.
type applier interface {
	operate.Applier
	Check(ctx context.Context, as store.Role) error
}

func outboxesDropCommand(out io.Writer) *cobra.Command {
	var schema string
	var o operate.Order
	var asJSON, sure bool
	c := &cobra.Command{Use: "drop ID", Short: "Drop a message that the broker refused, with a reason",
		Long: outboxesDropAbout, Args: cobra.ExactArgs(1)}
	connect.StoreFlags(c, &schema, &asJSON)
	f := c.Flags()
	connect.AuditFlags(f, &o.Reason, &o.Author)
	f.BoolVar(&sure, "yes", false, "accepted for scripts: one message needs no confirmation")
	c.RunE = func(c *cobra.Command, args []string) error {
		if strings.TrimSpace(o.Reason) == "" {
			return &cli.UsageError{What: "why? Give --reason"}
		}
		return With(c, schema, store.Relay, func(ctx context.Context, k applier) error {
			if err := operate.DropDeferred(ctx, k, args[0], o); err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(out).Encode(map[string]any{"what": "outbox drop", "id": args[0]})
			}
			_, err := fmt.Fprintf(out, "%s is dropped.\n", args[0])
			return err
		})
	}
	return c
}
