package verbs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

const writeAbout = `Writes one message into the outbox. Every subscriber of its topic receives it: use it to compensate by
hand.

With --caused-by the message gets the correlation id of its cause, if the cause is parked or a dead letter.
If not, only the id of the cause is recorded, and the output shows that. If you lost the output, repeat the
command with the same --id: the same message is not written twice, and another message is refused.`

// writer is the part of a store that the command needs.
type writer interface {
	operate.WriteStore
	Check(ctx context.Context, as store.Role) error
}

func writeCommand(out io.Writer) *cobra.Command {
	w, d, key, data := &connect.Change{}, operate.Draft{}, connect.Key(nil), ""
	c := &cobra.Command{Use: "write", Short: "Write one message into the outbox, with a reason",
		Long: writeAbout,
		Args: cobra.NoArgs}
	connect.StoreFlags(c, &w.Schema, &w.JSON)
	f := c.Flags()
	f.StringVar(&d.Topic, "topic", "", "`TOPIC` of the message")
	f.Var(&key, "key", "`KEY` of the message, a binary key as base64:… (default: no key, no order)")
	f.StringVar(&d.Type, "type", "", "`TYPE` of the message")
	connect.DataFlag(c, &data, "`PAYLOAD` of the message")
	f.StringVar(&d.ContentType, "content-type", "application/json", "content `TYPE` of the payload")
	f.StringVar(&d.ID, "id", "", "`ID` of the message (default: a new id)")
	f.StringVar(&d.CausedBy, "caused-by", "", "`ID` of the message that caused it")
	f.StringVar(&d.Consumer, "consumer", "", "with --caused-by: consumer `GROUP` that has the cause")
	f.StringVar(&d.Source, "source", "", "with --caused-by: `SOURCE` of the cause")
	f.BoolVar(&w.Yes, "yes", false, "accepted for scripts: one message needs no confirmation")
	f.BoolVar(&w.Dry, "dry-run", false, "print the message, and write nothing")
	connect.AuditFlags(f, &w.Reason, &w.By)
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		switch {
		case d.Topic == "" || d.Type == "":
			return &cli.UsageError{What: "write needs a --topic and a --type"}
		case !c.Flags().Changed("data"):
			return &cli.UsageError{What: "write needs --data, the payload"}
		case d.CausedBy == "" && d.Consumer+d.Source != "":
			return &cli.UsageError{What: "--consumer and --source name the cause: give --caused-by ID, too"}
		}
		if err := w.Reasoned("write"); err != nil {
			return err
		}
		d.Key = key
		if d.Data, err = connect.Payload(data, c.InOrStdin()); err != nil {
			return err
		}
		if d.ContentType == "application/json" && !json.Valid(d.Data) {
			return &cli.UsageError{What: "the payload is no JSON: correct it, or give its --content-type"}
		}
		write := func(ctx context.Context, k writer) error {
			r, err := operate.Write(ctx, k, d, w.Order(nil, "write"))
			if err != nil {
				return err
			}
			return tellWritten(out, w, &d, &r)
		}
		if w.Dry {
			return unchecked(c, w.Schema, write)
		}
		return With(c, w.Schema, store.App, write)
	}
	return c
}

func tellWritten(out io.Writer, w *connect.Change, d *operate.Draft, r *operate.WriteReport) error {
	m := &r.Message
	if w.JSON {
		return cli.JSON(out).Encode(map[string]any{"what": "write", "id": m.ID, "topic": m.Topic,
			"type": m.Type, "key": m.Key,
			"causation_id": m.CausationID, "correlation_id": m.CorrelationID, "cause_kept": r.CauseKept,
			"bytes": len(m.Data), "dry_run": w.Dry, "repeated": r.Repeated})
	}
	word := "is written"
	if r.Repeated {
		word = "was written before, so nothing is written"
	}
	if w.Dry {
		word = "would be written"
	}
	if d.CausedBy != "" && !r.CauseKept {
		word += ", without a correlation, because " + d.CausedBy + " is not in this database"
	}
	_, err := fmt.Fprintf(out, "%s %s: %s to %s, %d bytes\n", m.ID, word, m.Type, m.Topic, len(m.Data))
	return err
}
