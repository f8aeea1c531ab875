package verbs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	c := &cobra.Command{Use: "show", Short: "Show dead letters with payloads and attempts",
		Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return w.show(c, out) }}
	w.flags(c, false)
	return c
}

// show prints the newest of the selected dead letters. It reads one payload at a time, to limit memory.
func (w *wanted) show(c *cobra.Command, out io.Writer) error {
	if err := w.valid(); err != nil {
		return err
	}
	found, all := newestBy(w.limit, keptOrder), *w
	all.limit = 0
	return all.look(c, func(ctx context.Context, k keeper) error {
		for p, err := range operate.List(ctx, k, w.selection(), true) {
			if err != nil {
				return err
			}
			found.add(p)
		}
		list, shown := found.sort(), 0
		for i := range list {
			one := operate.Selection{Dead: true, Consumer: list[i].Consumer, Source: list[i].Source,
				ID: list[i].ID}
			for p, err := range operate.List(ctx, k, one, false) {
				if err == nil {
					err = tellDead(ctx, out, k, &p, w.JSON, shown > 0)
				}
				if shown++; err != nil {
					return err
				}
			}
		}
		if shown == 0 {
			return cmp.Or(checkConsumer(ctx, k, w.consumer),
				error(&cli.NoneError{What: "no dead letter is selected by these flags"}))
		}
		cli.Ended(c.ErrOrStderr(), len(list), found.all, "dead letters", w.JSON)
		return nil
	})
}

// tellDead prints one dead letter. If spaced is true, it prints an empty line first.
func tellDead(ctx context.Context, out io.Writer, k keeper, p *store.Parked, asJSON, spaced bool) error {
	m := operate.NewMessage(p)
	if m.Payload == nil { // if Readable fails, the payload is printed as bytes
		m.Payload, _ = schema.Readable(ctx, k, "", p.Message, formats()...)
	}
	if !asJSON {
		return tellLetter(out, &m, operate.State(p), spaced)
	}
	enc := cli.JSON(out)
	enc.SetEscapeHTML(false)
	return enc.Encode(m)
}

// tellLetter prints a dead letter for people. If spaced is true, it prints an empty line first.
func tellLetter(out io.Writer, m *operate.Message, state string, spaced bool) error {
	t := cli.Table(out)
	if spaced {
		fmt.Fprintln(t)
	}
	line := func(what, is string) {
		if is != "" {
			fmt.Fprintf(t, "  %s\t%s\n", what, cli.Line(is))
		}
	}
	fmt.Fprintf(t, "%s of %s: %s\n", cli.Line(m.ID), m.Consumer, state)
	line("source", m.Source)
	line("topic", fmt.Sprintf("%s, at %d of %s", m.Topic, m.Position, m.Partition))
	line("type", m.Type)
	line("key", connect.KeyText(m.Key))
	line("blocks its key", map[bool]string{true: "yes"}[m.BlocksKey])
	line("published", cli.When(m.Time))
	line("kept since", cli.Time(m.Since))
	line("dead since", cli.When(m.DeadAt))
	line("attempts", fmt.Sprint(m.Attempts))
	line("killed its process", map[bool]string{true: fmt.Sprintf("%d times", m.CrashCount)}[m.CrashCount > 0])
	for i := range m.Failures {
		line("failed", failedText(&m.Failures[i]))
	}
	if len(m.Failures) == 0 { // it was never attempted, or an older version of Skald parked it
		line("error", cli.FirstLine(m.LastError))
	}
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

func failedText(f *operate.FailedAttempt) string {
	return fmt.Sprintf("%s on %s: %s", cli.Time(f.At), f.Host, cli.FirstLine(f.Error))
}

// tellTexts prints the texts that may have several lines: the last failure, its stack, and the payload.
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
		part("payload", fmt.Sprintf("%d bytes of binary data: --json prints them in base64", len(m.Data)))
	}
	return err
}
