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

const editAbout = `Puts a new message with another payload in the place of a dead letter, for the consumer that failed and nobody else: with an id
of its own, caused by the dead letter, with its key, type and headers. The dead letter is dropped, with that for a reason, in the
same transaction; a repeat of it is not taken. The consumer takes the new message within seconds. One that is at a call to
the outside is not edited: what became of the call would be forgotten. Nor is one whose envelope cannot be read: it has no type and
no key that a new message could have.`

func editCommand(out io.Writer) *cobra.Command {
	w := &wanted{dead: true}
	var data string
	c := &cobra.Command{Use: "edit",
		Short: "Put a message with another payload in the place of a dead letter", Long: editAbout,
		Args: cobra.NoArgs}
	w.flags(c, true)
	connect.DataFlag(c, &data, "the new payload")
	c.RunE = func(c *cobra.Command, _ []string) error {
		switch {
		case w.id == "":
			return &cli.UsageError{What: "edit wants the ID of one dead letter"}
		case !c.Flags().Changed("data"):
			return &cli.UsageError{What: "edit wants --data, the new payload; @FILE is what is in that file"}
		}
		if err := w.Reasoned("edit"); err != nil {
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
