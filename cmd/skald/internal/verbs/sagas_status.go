package verbs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/operate"
	where "github.com/skald-go/skald/status"
	"github.com/skald-go/skald/store"
)

const sagasStatusAbout = `Shows the progress of a saga, choreographed or orchestrated: what has happened, what it waits for, since
when, and what fails. It names the messages of this database that block the saga, and the command that
unblocks each. --explain prints sentences.

skald saga show has more about an orchestrated saga. skald steps show has the steps of a choreographed saga
at a participant.`

// Status returns skald status.
func Status(out io.Writer) *cobra.Command {
	var schema, traces string
	var asJSON, explain bool
	c := &cobra.Command{Use: "status KEY", Short: "Show the progress of a saga and its obstacles",
		Long: sagasStatusAbout, Args: cobra.ExactArgs(1)}
	connect.StoreFlags(c, &schema, &asJSON)
	c.Flags().BoolVar(&explain, "explain", false, "explain in sentences")
	c.Flags().StringVar(&traces, "trace-url", "", "`URL` of traces, https://…/{trace}")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := where.CheckTraceURL(traces); err != nil {
			return &cli.UsageError{What: err.Error()}
		}
		return unchecked(c, schema, func(ctx context.Context, db store.Lister) error {
			a, err := where.Ask(ctx, db, args[0], connect.Same(c, schema))
			if err != nil {
				return fmt.Errorf("status of %s: %w", args[0], err)
			}
			rows := unpublishedOf(ctx, db, &a)
			if !a.Known() {
				none := fmt.Sprintf("this database has nothing about %.100q: "+
					"check that this is the key of a saga, and that a tracker or an engine uses this database; "+
					"a participant of an orchestrated saga has only steps, under the id of the saga", args[0])
				steps, err := stepsTold(ctx, db, args[0], connect.Same(c, schema))
				if len(steps) > 0 {
					none = "the database of its tracker or engine has its state"
				}
				return errors.Join(err, &cli.NoneError{What: strings.Join(slices.Concat(rows, steps,
					[]string{none}), "; ")})
			}
			for _, row := range rows {
				fmt.Fprintln(c.ErrOrStderr(), cli.Line(row))
			}
			a.Link(traces)
			switch {
			case asJSON:
				return cli.JSON(out).Encode(&a)
			case explain:
				_, err = fmt.Fprintln(out, cli.Lines(where.Explain(&a, time.Now())))
				return err
			}
			return errors.Join(sagasTellStatus(out, &a, time.Now()),
				tellMore(c.ErrOrStderr(), &a, connect.Same(c, schema)))
		})
	}
	return c
}

// unpublishedOf describes the messages of a saga that are not published. It searches the oldest rows of the
// outbox by ID and by key. It returns nil if the user may not read the outbox.
func unpublishedOf(ctx context.Context, db store.Lister, a *where.Answer) (out []string) {
	keys := [][]byte{[]byte(a.Key)}
	for i := range a.Sagas {
		keys = append(keys, a.Sagas[i].Keys...)
	}
	rows, err := operate.Unpublished(ctx, db, a.Key, keys, 1000)
	if err != nil && !errors.As(err, new(*store.RightError)) {
		out = append(out, "its unpublished messages could not be read: "+err.Error())
	}
	for i := range rows {
		r := &rows[i]
		text := fmt.Sprintf("%s %s to %s is not published: it has waited in the outbox since %s", r.Type, r.ID,
			r.Topic, cli.Time(r.Written))
		if r.Deferred {
			text += " (deferred; skald outbox status)"
		}
		if r.Attempts > 0 {
			text += ", the broker refuses it: " + cli.FirstLine(r.LastError)
		}
		out = append(out, text)
	}
	return out
}

func sagasTellStatus(out io.Writer, a *where.Answer, now time.Time) error {
	t := cli.Table(out)
	line := func(what, is string) { fmt.Fprintf(t, "  %s\t%s\n", cli.Line(what), cli.Line(is)) }
	for i := range a.Sagas {
		s := &a.Sagas[i]
		fmt.Fprintf(t, "%s %s: %s\n", s.Name, cli.ShortKey(s.Key), s.Word())
		if s.Why != "" {
			line("it turned back", s.Why)
		}
		if text := s.Deadline(now); text != "" {
			line("deadline", text)
		}
		for j := range s.Steps {
			line(toldStep(&s.Steps[j]))
		}
		for j := range s.Waiting {
			line("waits for", toldWait(&s.Waiting[j]))
		}
		if r := s.Retrying; r != nil {
			line(r.Step, s.Again(now)+": "+cli.FirstLine(r.Error))
		}
		for _, c := range s.Commands {
			line("to unblock", c)
		}
		for _, a := range s.RequestedUndos {
			line("undo requested", fmt.Sprintf("%s, at %s", a.Step, cli.Time(a.At)))
		}
		for _, more := range []struct {
			what string
			is   []string
		}{{"not arrived yet", s.Missing}, {"remains", s.Remaining}, {s.UndoWord(), s.Undo},
			{"nothing undoes", s.Stays}, {"drift", s.Drift}} {
			if len(more.is) > 0 {
				line(more.what, strings.Join(more.is, ", "))
			}
		}
		if s.Trace != "" {
			line("trace", cmp.Or(s.TraceURL, s.Trace))
		}
	}
	for i := range a.Held {
		h := &a.Held[i]
		fmt.Fprintf(t, "%s %s blocks it: %s at %s since %s\n", cli.Line(h.Type),
			cli.Line(h.ID), h.State, h.Consumer,
			cli.Time(h.Since))
		if h.LastError != "" {
			line("last error", h.LastError)
		}
		if h.Attempts > 0 {
			line("attempts", fmt.Sprint(h.Attempts))
		}
		if h.ShowCommand != "" {
			line("why", h.Doubt())
			line("look", h.ShowCommand)
		}
		line("to unblock", h.Command)
	}
	return t.Flush()
}

// tellMore prints, for each saga, the command that shows the whole saga.
func tellMore(errs io.Writer, a *where.Answer, at string) (err error) {
	for i := range a.Sagas {
		s := &a.Sagas[i]
		more := "skald steps show" + spaced(at) + " --saga " + shortlog.Shell(s.Key) +
			", at the database of each participant"
		if s.Style == operate.Orchestrated {
			more = "skald saga show" + spaced(at) + " " + shortlog.Shell(s.Name) + " " + shortlog.Shell(s.Key)
		}
		_, wrote := fmt.Fprintln(errs, "more: "+cli.Line(more))
		err = errors.Join(err, wrote)
	}
	return err
}

func toldStep(s *operate.StepProgress) (when, what string) {
	when, what = cli.When(s.At), s.Name
	if s.Outcome != operate.StepDone {
		what += " is " + s.Outcome
	}
	if s.Stuck {
		what += ", stuck"
	}
	if s.Error != "" {
		what += ": " + cli.FirstLine(s.Error)
	}
	return when, what
}

func toldWait(w *operate.Wait) string {
	text := map[string]string{operate.WaitReply: "a reply, by " + w.After, operate.WaitTime: "its time, by " +
		w.After, operate.WaitChild: "the saga that " + w.After + " started",
		operate.WaitSignal: "the signal ", operate.WaitEntities: ""}[w.Kind] + w.ForText()
	if w.Kind == operate.WaitEntities {
		text += ", which other sagas hold, by " + w.After
	}
	if w.Since != nil {
		text += ", since " + cli.Time(*w.Since)
	}
	if w.Due != nil {
		text += ", due " + cli.Time(*w.Due)
	}
	return text
}
