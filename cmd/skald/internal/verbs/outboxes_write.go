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

const writeAbout = `Writes one message into the outbox, from where every subscriber of its topic gets it: a compensation by hand. It is noted who wrote it,
and why. With --caused-by it belongs to the process of that message, which is looked for among what is kept; of one that is not kept any more only
the id is known, and that is said. Where the answer is lost, type it again with the --id that it had:
the same message is left out, another one is refused.`

// writer is the part of a store that the command needs.
type writer interface {
	operate.Writer
	Check(ctx context.Context, as store.Role) error
}

func writeCommand(out io.Writer) *cobra.Command {
	w, d, key, data := &connect.Change{}, operate.Draft{}, connect.Key(nil), ""
	c := &cobra.Command{Use: "write", Short: "Write one message by hand, for a reason", Long: writeAbout,
		Args: cobra.NoArgs}
	connect.StoreFlags(c, &w.Schema, &w.JSON)
	f := c.Flags()
	f.StringVar(&d.Topic, "topic", "", "where it goes")
	f.Var(&key, "key", "whose order it keeps, base64:… where that is no text; none is given: it keeps none")
	f.StringVar(&d.Type, "type", "", "what kind of event it is")
	connect.DataFlag(c, &data, "the payload")
	f.StringVar(&d.ContentType, "content-type", "application/json", "of the payload")
	f.StringVar(&d.ID, "id", "", "its id (default: a new one)")
	f.StringVar(&d.CausedBy, "caused-by", "", "the id of the message that it is written because of")
	f.StringVar(&d.Consumer, "consumer", "", "with --caused-by: the consumer that keeps that")
	f.StringVar(&d.Source, "source", "", "with --caused-by: its source")
	f.BoolVar(&w.Yes, "yes", false, "do not ask; nothing is asked of one message")
	f.BoolVar(&w.Dry, "dry-run", false, "say what would be written, and write nothing")
	f.StringVar(&w.Reason, "reason", "", "why; it is kept in skald_audit")
	f.StringVar(&w.By, "by", connect.Whoami(), "who does it, for the audit")
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		switch {
		case d.Topic == "" || d.Type == "":
			return &cli.UsageError{What: "write wants a --topic and a --type"}
		case !c.Flags().Changed("data"):
			return &cli.UsageError{What: "write wants --data, the payload"}
		}
		if err := w.Reasoned("write"); err != nil {
			return err
		}
		d.Key = key
		if d.Data, err = connect.Payload(data, c.InOrStdin()); err != nil {
			return err
		}
		if d.ContentType == "application/json" && !json.Valid(d.Data) {
			return &cli.UsageError{What: "the payload is no JSON: mend it, or give its --content-type"}
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
		word = "was written before, as the same message, and is left out"
	}
	if w.Dry {
		word = "would be written"
	}
	if d.CausedBy != "" && !r.CauseKept {
		word += ", the beginning of a process of its own, as " + d.CausedBy + " is not kept here"
	}
	_, err := fmt.Fprintf(out, "%s %s: %s to %s, %d bytes\n", m.ID, word, m.Type, m.Topic, len(m.Data))
	return err
}
