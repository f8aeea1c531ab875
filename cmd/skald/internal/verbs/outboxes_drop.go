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

const outboxesDropAbout = `Gives up a message of the outbox that the broker refused and that is deferred (docs/operations.md: SkaldDeferred): no subscriber gets
it. Messages of its key that wait for it go on. If a relay is trying it at this moment it may be published all the same.
The view skald_outbox_state has the ids, with the broker's reason. It needs what a relay needs, and INSERT on skald_audit.`

// An applier is what the command asks of a store.
type applier interface {
	operate.Applier
	Check(ctx context.Context, as store.Role) error
}

func outboxesDropCommand(out io.Writer) *cobra.Command {
	var schema string
	var o operate.Order
	var asJSON, sure bool
	c := &cobra.Command{Use: "drop ID", Short: "Give up a message that the broker refused, for a reason",
		Long: outboxesDropAbout, Args: cobra.ExactArgs(1)}
	connect.StoreFlags(c, &schema, &asJSON)
	f := c.Flags()
	f.StringVar(&o.Reason, "reason", "", "why; it is kept in skald_audit")
	f.StringVar(&o.Author, "by", connect.Whoami(), "who does it, for the audit")
	f.BoolVar(&sure, "yes", false, "do not ask; nothing is asked of one message")
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
			_, err := fmt.Fprintf(out, "%s is given up.\n", args[0])
			return err
		})
	}
	return c
}
