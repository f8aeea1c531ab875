// This file has the command skald saga, and its subcommands that read.

package verbs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

const sagasAbout = `Inspects and repairs orchestrated sagas. For choreographed sagas see skald status, steps and compensate.

A saga is selected by its key, or by its definition and its key: skald saga show order o-1. Commands that
change sagas need a --reason, recorded in skald_audit. Instead of a key, flags select many sagas;
--dry-run lists them. The console shows such a run. If the run is interrupted, the same command or the
console continues it and changes no saga twice. Engines apply a change within half a second.

A saga cannot go back to an earlier step, because an undo is final at participants and providers. Cancel the
saga, and start another saga with a new key.`

// SagasCommand returns skald saga.
func SagasCommand(out, errs io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "saga",
		Short: "Inspect and repair orchestrated sagas", Long: sagasAbout}
	c.AddCommand(sagasListCommand(out), sagasShowCommand(out), explainCommand(out), graphCommand(out),
		holdsCommand(out), checkCommand(out))
	for _, verb := range operate.SagaVerbs() {
		c.AddCommand(verbCommand(out, errs, verb))
	}
	return c
}

// sagasWanted has the flags that select sagas, and the flags of a change.
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
	connect.Filter(f, &s.Name, "name", "only sagas of the definition with this `NAME`")
	connect.Filter(f, &s.ID, "id", "only the saga with this `ID`")
	connect.Filter(f, &s.Status, "status", "only sagas with this `STATUS`: "+
		strings.Join(operate.SagaStatuses(), ", "))
	f.BoolVar(&s.Stuck, "stuck", false, "only sagas that wait for an operator")
	f.BoolVar(&s.Paused, "paused", false, "only paused sagas")
	f.BoolVar(&s.Failing, "failing", false, "only sagas that wait for another attempt")
	connect.Filter(f, &s.Step, "at", "only sagas at this `STEP`, with its occurrence as pack/line-1")
	connect.Filter(f, &s.Error, "error", "only sagas with this `TEXT` in their last error")
	connect.Filter(f, &w.started, "since",
		"only sagas started since this `TIME`: 2026-01-31T08:00:00Z, or 2h for two hours ago")
	connect.Filter(f, &w.before, "until", "only sagas started before this `TIME`")
}

// named sets the name and the key from the arguments [NAME] KEY.
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

// keyArgs adds the arguments of a command about one saga.
func keyArgs(c *cobra.Command) {
	c.Use += " [NAME] KEY"
	c.Args = cobra.RangeArgs(1, 2)
}

// sagasKeeper is the part of a store that these commands need.
type sagasKeeper interface {
	operate.SagaStore
	Check(ctx context.Context, as store.Role) error
}

// look calls f with the store, for a read or a dry run. It does not check rights.
func (w *sagasWanted) look(c *cobra.Command, f func(ctx context.Context, k sagasKeeper) error) error {
	return unchecked(c, w.Schema, f)
}

// write calls f with the store, for a change.
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
	c := &cobra.Command{Use: "list", Short: "List sagas and their states", Args: cobra.NoArgs}
	w.flags(c)
	w.filters(c)
	c.Flags().IntVar(&w.which.Limit, "limit", 100, "list at most `N`; 0 lists all")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := connect.Limit(w.which.Limit); err != nil {
			return err
		}
		if err := w.named(nil); err != nil {
			return err
		}
		return w.look(c, func(ctx context.Context, k sagasKeeper) error {
			found := newestBy(w.which.Limit, func(a, b *operate.Saga) int {
				return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(b.Key, a.Key))
			})
			which := w.which
			which.Limit = 0
			err := operate.EachSaga(ctx, k, which, func(s operate.Saga) { found.add(s) })
			if err == nil && found.all == 0 {
				err = w.checkNames(ctx, k)
			}
			if err != nil {
				return err
			}
			list := found.sort()
			err = listSagas(out, list, w.JSON)
			cli.Ended(c.ErrOrStderr(), len(list), found.all, "sagas", w.JSON)
			return err
		})
	}
	return c
}

// checkNames returns an error if the database does not have the saga of --name or the step of --at.
// Otherwise a command would print an empty list for a misspelt name.
func (w *sagasWanted) checkNames(ctx context.Context, k sagasKeeper) error {
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
			steps, unread = append(steps, d.Steps...), unread || d.DecodeError != ""
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

// read calls f with the saga of the arguments.
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
	c := &cobra.Command{Use: "show", Short: "Show the state and history of a saga"}
	keyArgs(c)
	w.flags(c)
	c.Flags().BoolVar(&data, "data", false, "also print the input and the outputs of steps")
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
	line("turned back", d.Why)
	line("step of", d.Parent)
	line("correlation", d.Correlation)
	line("run by", d.Session)
	line("due", cli.When(d.Due))
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
		for i := range r.Failures {
			f := &r.Failures[i]
			line("", fmt.Sprintf("%s, at %s: %s", f.Text(name), cli.Time(f.At), cli.FirstLine(f.Error)))
		}
		line("", string(r.Output))
	}
	for _, e := range d.Early {
		line("signal kept", e)
	}
	return t.Flush()
}

func explainCommand(out io.Writer) *cobra.Command {
	w := &sagasWanted{}
	c := &cobra.Command{Use: "explain", Short: "Explain the state of a saga and the possible next commands"}
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
	c := &cobra.Command{Use: "graph", Short: "Draw a saga and its progress"}
	keyArgs(c)
	w.flags(c)
	c.Flags().StringVar(&form, "form", "text", "`FORM` of the drawing: "+strings.Join(operate.DrawingForms(), ", "))
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

const checkAbout = `Checks whether the next build can resume sagas of the present one. --definitions is the file that
saga.Write wrote for the next build.

The command compares it with the running sagas. It also compares it with the last definition of each name
in the database, because sagas with that definition may still start. Sagas that the next build cannot
resume stay with the older build. The exit code is 8 if there are such sagas.`

func checkCommand(out io.Writer) *cobra.Command {
	w, file := &sagasWanted{}, ""
	c := &cobra.Command{Use: "check", Short: "Check whether the next build can resume the running sagas",
		Long: checkAbout, Args: cobra.NoArgs}
	w.flags(c)
	c.Flags().StringVar(&file, "definitions", "", "`FILE` of saga.Write from the next build")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if file == "" {
			return &cli.UsageError{What: "which definitions? Give --definitions FILE"}
		}
		text, err := cli.ReadFile(file, cli.MostDefinitions)
		if err != nil {
			return err
		}
		return w.look(c, func(ctx context.Context, k sagasKeeper) error {
			list, err := operate.CheckSagas(ctx, k, bytes.NewReader(text))
			if err != nil {
				return err
			}
			last, err := operate.CheckDefinitions(ctx, k, bytes.NewReader(text))
			if err == nil && len(list) == 0 {
				err = noneRuns(c, out, w, len(last) == 0)
			}
			if err != nil {
				return err
			}
			return errors.Join(tellLast(out, last, list, w.JSON), tellCheck(out, list, w.JSON))
		})
	}
	return c
}

// noneRuns prints that no saga runs. It names the schema, because the user may have given a wrong schema.
func noneRuns(c *cobra.Command, out io.Writer, w *sagasWanted, same bool) error {
	where := "in this database"
	if w.Schema != "" {
		where = "in the schema " + w.Schema + " of this database"
	} else if !strings.HasPrefix(connect.From(c, "store", "SKALD_STORE"), "sqlite:") {
		where = "in the schema public of this database"
	}
	if w.JSON { // programs read out, where each line is a check
		out = c.ErrOrStderr()
	}
	text := "no saga runs " + where
	if same {
		text += ": there is nothing to compare, and each build can be deployed"
	}
	_, err := fmt.Fprintln(out, text)
	return err
}
