package verbs

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
)

const editAbout = `Replaces a dead letter by a message with another payload, only for the consumer that failed. The new
message has its own id, the dead letter as its cause, and the same key, type and headers. The dead letter
is dropped in the same transaction, and its duplicates are ignored. The consumer handles the new message
within seconds.

A dead letter with an external call in progress cannot be edited, because the outcome of the call would be
lost. A dead letter with an unreadable envelope has no type and no key, and cannot be edited either.`

func editCommand(out io.Writer) *cobra.Command {
	w := &wanted{dead: true}
	var data string
	c := &cobra.Command{Use: "edit",
		Short: "Replace a dead letter by a message with another payload", Long: editAbout,
		Args: cobra.NoArgs}
	w.flags(c, true)
	connect.DataFlag(c, &data, "the new `PAYLOAD`")
	c.RunE = func(c *cobra.Command, _ []string) error {
		switch {
		case w.id == "":
			return &cli.UsageError{What: "edit needs the ID of one dead letter"}
		case !c.Flags().Changed("data"):
			return &cli.UsageError{What: "edit needs --data, the new payload; @FILE reads a file"}
		}
		if err := w.reasoned(c, "edit"); err != nil {
			return err
		}
		payload, err := connect.Payload(data, c.InOrStdin())
		if err != nil {
			return err
		}
		return w.write(c, func(ctx context.Context, k keeper) error {
			r, err := operate.Edit(ctx, k, w.selection(), payload, w.Order(nil, "edit"))
			if err != nil {
				return err
			}
			return tellEdit(out, w, r)
		})
	}
	return c
}

func tellEdit(out io.Writer, w *wanted, r operate.EditReport) error {
	if w.JSON {
		return cli.JSON(out).Encode(map[string]any{"what": "edit", "id": r.ID,
			"instead_of": r.InsteadOf, "consumer": r.Consumer,
			"bytes": r.Bytes, "dry_run": w.Dry})
	}
	word := "is parked"
	if w.Dry {
		word = "would be parked"
	}
	_, err := fmt.Fprintf(out, "%s %s in the place of %s, with %d bytes instead of %d\n", r.ID, word,
		cli.Line(r.InsteadOf), r.Bytes, r.Before)
	return err
}
