package verbs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/store"
)

func showDeadCommand(out io.Writer) *cobra.Command {
	w := &wanted{dead: true}
	c := &cobra.Command{Use: "show", Short: "Dead letters with all that is known, payloads too",
		Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
			n := 0
			err := w.eachIn(c, false, func(ctx context.Context, k keeper, p *store.Parked) error {
				m := operate.MessageOf(p)
				if m.Payload == nil { // what cannot be read by a schema is shown as bytes alone
					m.Payload, _ = schema.Readable(ctx, k, "", p.Message, formats()...)
				}
				if n++; !w.JSON {
					return tellLetter(out, &m, operate.State(p), n > 1)
				}
				enc := cli.JSON(out)
				enc.SetEscapeHTML(false)
				return enc.Encode(m)
			})
			if err == nil && n == 0 {
				err = &cli.NoneError{What: "no dead letter is meant by these flags"}
			}
			return err
		}}
	w.flags(c, false)
	return c
}

// tellLetter writes a dead letter for who looks; after an empty line, if others came before it.
func tellLetter(out io.Writer, m *operate.Message, state string, more bool) error {
	t := cli.Table(out)
	if more {
		fmt.Fprintln(t)
	}
	line := func(what, is string) {
		if is != "" {
			fmt.Fprintf(t, "  %s\t%s\n", what, cli.Line(is))
		}
	}
	failed := func(what, why, host string, when *time.Time) {
		switch {
		case why == "" || when == nil: // or it came from a build that noted no more
			line(what, cli.FirstLine(why))
		default:
			line(what, fmt.Sprintf("%s on %s: %s", cli.Time(*when), host, cli.FirstLine(why)))
		}
	}
	fmt.Fprintf(t, "%s of %s: %s\n", cli.Line(m.ID), m.Consumer, state)
	line("source", m.Source)
	line("topic", fmt.Sprintf("%s, at %d of %s", m.Topic, m.Position, m.Partition))
	line("type", m.Type)
	line("key", connect.KeyText(m.Key))
	line("its key waits", map[bool]string{true: "yes"}[m.HoldsKey])
	line("published", cli.When(m.Time))
	line("kept since", cli.Time(m.Since))
	line("dead since", cli.When(m.DeadAt))
	line("attempts", fmt.Sprint(m.Attempts))
	line("killed its process", map[bool]string{true: fmt.Sprintf("%d times", m.CrashCount)}[m.CrashCount > 0])
	failed("first failure", m.FirstError, m.FirstHost, m.FirstAt)
	failed("last failure", m.LastError, m.LastHost, m.LastAt)
	line("envelope", m.Fault)
	line("build", m.Version)
	line("subject", m.Subject)
	line("schema", m.DataSchema)
	line("correlation", m.CorrelationID)
	line("cause", m.CausationID)
	line("trace", m.TraceParent)
	for _, h := range m.Headers {
		line("header", fmt.Sprintf("%s: %q", h.Name, h.Value))
	}
	line("content", m.ContentType)
	return errors.Join(t.Flush(), tellTexts(cli.Plain(out), m))
}

// tellTexts writes what has lines of its own: the whole of the last failure, its stack, and the payload.
func tellTexts(out io.Writer, m *operate.Message) (err error) {
	part := func(what, text string) {
		if text != "" && err == nil {
			_, err = fmt.Fprintf(out, "%s\n%s\n", what, text)
		}
	}
	if m.LastError != cli.FirstLine(m.LastError) {
		part("last failure", m.LastError)
	}
	part("stack", m.Stack)
	var pretty bytes.Buffer
	switch {
	case m.Payload != nil && json.Indent(&pretty, m.Payload, "", "  ") == nil:
		part("payload", pretty.String())
	case utf8.Valid(m.Data):
		part("payload", string(m.Data))
	default:
		part("payload", fmt.Sprintf("%d bytes that are no text: --json prints them in base64", len(m.Data)))
	}
	return err
}
