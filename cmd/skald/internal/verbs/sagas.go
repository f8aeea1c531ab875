// This file has the commands on sagas: skald saga, status, steps and compensate.

package verbs

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

const sagasAbout = `Orchestrated sagas: which there are, how they stand and why, and what to do about one that is stuck.

A saga is named by its key, or by its definition and its key: skald saga show order o-1. Verbs that change sagas want a --reason, which is
kept in skald_audit, and take flags that select many; --dry-run says which. Many are a run, which the console shows: if it is interrupted, the
same command, or the console, goes on with it and changes no saga twice. Engines see a change at once, or within half a second.

There is no rewind: to go back to a step would mean to undo what came after it and do that again, and an undo that was called counts as
final at participants and providers. Cancel the saga, and start another one under a new key.`

// SagasCommand is skald saga.
func SagasCommand(out, errs io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "saga",
		Short: "Orchestrated sagas: look, explain, draw, holds, check, retry, complete, skip, cancel, pause, resume, signal", Long: sagasAbout}
	c.AddCommand(sagasListCommand(out), sagasShowCommand(out), explainCommand(out), graphCommand(out),
		holdsCommand(out), checkCommand(out))
	for _, verb := range operate.SagaVerbs() {
		c.AddCommand(verbCommand(out, errs, verb))
	}
	return c
}

// sagasWanted are the flags that say which sagas are meant.
type sagasWanted struct {
	connect.Change
	which           operate.SagaSelection
	before, started string
}

func (w *sagasWanted) flags(c *cobra.Command) {
	connect.ListFlags(c, &w.Schema, &w.JSON)
}

func (w *sagasWanted) filters(c *cobra.Command) {
	f, s := c.Flags(), &w.which
	connect.Filter(f, &s.Name, "name", "only sagas of this definition")
	connect.Filter(f, &s.ID, "id", "only the saga of this id")
	connect.Filter(f, &s.Status, "status", "only those that are "+strings.Join(operate.SagaStatuses(), ", "))
	f.BoolVar(&s.Stuck, "stuck", false, "only those that wait for an operator")
	f.BoolVar(&s.Paused, "paused", false, "only those that are paused")
	f.BoolVar(&s.Failing, "failing", false, "only those that wait for another attempt")
	connect.Filter(f, &s.Step, "at", "only those that are at this step; with its occurrence: pack/line-1")
	connect.Filter(f, &s.Error, "error", "only those whose last error contains this")
	connect.Filter(f, &w.started, "since",
		"only those that were started since then: 2026-01-31T08:00:00Z, or 2h: two hours ago")
	connect.Filter(f, &w.before, "until", "only those that were started before; the same")
}

// named reads [NAME] KEY.
func (w *sagasWanted) named(args []string) (err error) {
	switch len(args) {
	case 1:
		w.which.Key = args[0]
	case 2:
		w.which.Name, w.which.Key = args[0], args[1]
	}
	if w.which.StartedAfter, err = connect.Moment("since", w.started); err == nil {
		w.which.StartedBefore, err = connect.Moment("until", w.before)
	}
	return err
}

// keyArgs are those of a command about one saga.
func keyArgs(c *cobra.Command) {
	c.Use += " [NAME] KEY"
	c.Args = cobra.RangeArgs(1, 2)
}

// A sagasKeeper is a store as these commands need it.
type sagasKeeper interface {
	operate.SagaKeeper
	Check(ctx context.Context, as store.Role) error
}

// look has f ask the store. It wants no right to write: a dry run is a look, too.
func (w *sagasWanted) look(c *cobra.Command, f func(ctx context.Context, k sagasKeeper) error) error {
	return unchecked(c, w.Schema, f)
}

// write has f change what the store has.
func (w *sagasWanted) write(c *cobra.Command, f func(ctx context.Context, k sagasKeeper) error) error {
	return writing(c, &w.Change, f)
}

func writing(c *cobra.Command, w *connect.Change, f func(ctx context.Context, k sagasKeeper) error) error {
	if w.Dry {
		return unchecked(c, w.Schema, f)
	}
	return With(c, w.Schema, store.App, f)
}

func sagasListCommand(out io.Writer) *cobra.Command {
	w := &sagasWanted{}
	c := &cobra.Command{Use: "list", Short: "How sagas stand", Args: cobra.NoArgs}
	w.flags(c)
	w.filters(c)
	c.Flags().IntVar(&w.which.Limit, "limit", 100, "at most so many; 0: all")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := connect.Limit(w.which.Limit); err != nil {
			return err
		}
		if err := w.named(nil); err != nil {
			return err
		}
		return w.look(c, func(ctx context.Context, k sagasKeeper) error {
			list, err := operate.Sagas(ctx, k, w.which)
			if err == nil && len(list) == 0 {
				err = w.known(ctx, k)
			}
			if err != nil {
				return err
			}
			cli.None(c.ErrOrStderr(), len(list), w.JSON)
			return listSagas(out, list, w.JSON)
		})
	}
	return c
}

// known is an error where --name is of no definition, and of no saga, or --at is no step of one: "nothing is
// there" would hide that it is misspelt.
func (w *sagasWanted) known(ctx context.Context, k sagasKeeper) error {
	if w.which.Name+w.which.Step == "" {
		return nil
	}
	all, err := operate.Definitions(ctx, k, "")
	if err != nil {
		return err
	}
	var names, steps []string
	unread := false
	for i := range all {
		d := &all[i]
		if names = append(names, d.Name); w.which.Name == "" || w.which.Name == d.Name {
			steps, unread = append(steps, d.Steps...), unread || d.Unread != ""
		}
	}
	if name := w.which.Name; name != "" && !slices.Contains(names, name) {
		any, err := operate.Sagas(ctx, k, operate.SagaSelection{Name: name, Limit: 1})
		if err != nil || len(any) > 0 {
			return err
		}
		return unknown("saga", name, names)
	}
	at := w.which.Step
	is := func(step string) bool { return at == step || strings.HasPrefix(at, step+"/") }
	if at == "" || unread || len(steps) == 0 || slices.ContainsFunc(steps, is) {
		return nil
	}
	return unknown("step", at, steps)
}

func listSagas(out io.Writer, list []operate.Saga, asJSON bool) error {
	t := cli.Table(out)
	for i := range list {
		s := &list[i]
		if asJSON {
			if err := cli.JSON(out).Encode(s); err != nil {
				return err
			}
			continue
		}
		if i == 0 {
			fmt.Fprintln(t, "saga\tkey\tstatus\tat\tstarted\tfailed\terror")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", s.Name, cli.ShortKey(s.Key), statusOf(s), s.Step,
			cli.Time(s.Started), s.Failed, cli.FirstLine(s.Error))
	}
	return t.Flush()
}

func statusOf(s *operate.Saga) string {
	text := s.Status
	if s.Stuck {
		text += ", stuck"
	}
	if s.Paused {
		text += ", paused"
	}
	return text
}

// read hands f the saga that the arguments name.
func (w *sagasWanted) read(c *cobra.Command, args []string, f func(r *operate.SagaRead) error) error {
	if err := w.named(args); err != nil {
		return err
	}
	return w.look(c, func(ctx context.Context, k sagasKeeper) error {
		r, err := operate.ReadSaga(ctx, k, w.which.Name, w.which.Key)
		if err != nil {
			return err
		}
		return f(&r)
	})
}

func sagasShowCommand(out io.Writer) *cobra.Command {
	w, data := &sagasWanted{}, false
	c := &cobra.Command{Use: "show", Short: "All that is known of a saga"}
	keyArgs(c)
	w.flags(c)
	c.Flags().BoolVar(&data, "data", false, "with its input and the outputs of its steps")
	c.RunE = func(c *cobra.Command, args []string) error {
		return w.read(c, args, func(r *operate.SagaRead) error {
			d := r.Detail(data)
			if w.JSON {
				return cli.JSON(out).Encode(&d)
			}
			return tellOrchestrated(out, &d)
		})
	}
	return c
}

func tellOrchestrated(out io.Writer, d *operate.SagaDetail) error {
	t := cli.Table(out)
	line := func(what, is string) {
		if is != "" {
			fmt.Fprintf(t, "  %s\t%s\n", cli.Line(what), cli.Line(is))
		}
	}
	fmt.Fprintf(t, "%s %s: %s\n", d.Name, cli.ShortKey(d.Key), statusOf(&d.Saga))
	line("id", d.ID)
	line("definition", d.Hash)
	line("started", cli.Time(d.Started))
	line("changed", cli.Time(d.Changed))
	line("ended", cli.When(d.Ended))
	line("deadline", cli.When(d.Deadline))
	line("it turned back", d.Why)
	line("step of", d.Parent)
	line("correlation", d.Correlation)
	line("in hand of", d.Session)
	line("next look", cli.When(d.Due))
	if d.Error != "" && d.Ended == nil {
		line("error", cli.FirstLine(d.Error)+", since "+cli.When(d.Since))
	}
	line("input", string(d.Input))
	for _, r := range d.Runs {
		name, text := r.Step, r.Phase
		if r.Occurrence != "" {
			name += "/" + r.Occurrence
		}
		if r.Stuck {
			text += ", stuck"
		}
		if r.Attempts > 0 {
			text += fmt.Sprintf(", failed %d times", r.Attempts)
		}
		if r.Due != nil {
			text += ", due " + cli.When(r.Due)
		}
		if r.Error != "" {
			text += ": " + cli.FirstLine(r.Error)
		}
		line("step "+name, text)
		line("", string(r.Output))
	}
	for _, e := range d.Early {
		line("signal kept", e)
	}
	return t.Flush()
}

func explainCommand(out io.Writer) *cobra.Command {
	w := &sagasWanted{}
	c := &cobra.Command{Use: "explain", Short: "How a saga stands, why, and what can be done, in plain words"}
	keyArgs(c)
	w.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return w.read(c, args, func(r *operate.SagaRead) error {
			lines := r.Explain(connect.Same(c, w.Schema))
			if w.JSON {
				return cli.JSON(out).Encode(map[string]any{"key": w.which.Key, "lines": lines})
			}
			_, err := fmt.Fprintln(out, cli.Lines(lines))
			return err
		})
	}
	return c
}

func graphCommand(out io.Writer) *cobra.Command {
	w, form := &sagasWanted{}, ""
	c := &cobra.Command{Use: "graph", Short: "Draw a saga with how far it has come"}
	keyArgs(c)
	w.flags(c)
	c.Flags().StringVar(&form, "form", "text", strings.Join(operate.Forms(), ", "))
	c.RunE = func(c *cobra.Command, args []string) error {
		return w.read(c, args, func(r *operate.SagaRead) error {
			text, err := r.Draw(form)
			if err == nil && w.JSON {
				return cli.JSON(out).Encode(map[string]string{"form": form, "drawing": text})
			}
			if err == nil {
				_, err = io.WriteString(out, text)
			}
			return err
		})
	}
	return c
}

const checkAbout = `Compares the sagas that run with the definitions of the next build, as saga.Write has written them: which go on, and which would be
left to the older build. The exit code is 8 if some would.`

func checkCommand(out io.Writer) *cobra.Command {
	w, file := &sagasWanted{}, ""
	c := &cobra.Command{Use: "check", Short: "Whether the next build can take on the sagas that run",
		Long: checkAbout, Args: cobra.NoArgs}
	w.flags(c)
	c.Flags().StringVar(&file, "definitions", "", "the file that saga.Write has written of the next build")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if file == "" {
			return &cli.UsageError{What: "which definitions? Give --definitions FILE"}
		}
		f, err := os.Open(file)
		if err != nil {
			return &cli.UsageError{What: err.Error()}
		}
		defer func() { _ = f.Close() }()
		return w.look(c, func(ctx context.Context, k sagasKeeper) error {
			list, err := operate.CheckSagas(ctx, k, f)
			if err != nil {
				return err
			}
			if len(list) == 0 {
				return noneRuns(c, out, w)
			}
			return tellCheck(out, list, w.JSON)
		})
	}
	return c
}

// noneRuns says that there was nothing to compare: perhaps it is another schema, or another database.
func noneRuns(c *cobra.Command, out io.Writer, w *sagasWanted) error {
	where := "in this database"
	if w.Schema != "" {
		where = "in the schema " + w.Schema + " of this database"
	} else if !strings.HasPrefix(connect.From(c, "store", "SKALD_STORE"), "sqlite:") {
		where = "in the schema public of this database"
	}
	if w.JSON { // a line of out is a check
		out = c.ErrOrStderr()
	}
	_, err := fmt.Fprintf(out, "no saga runs %s: there is nothing to compare, and each build can be deployed\n", where)
	return err
}
