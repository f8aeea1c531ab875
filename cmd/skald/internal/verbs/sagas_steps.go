package verbs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// Steps returns skald steps.
func Steps(out io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "steps", Short: "Inspect the saga steps that consumers of this database do"}
	c.AddCommand(stepsListCommand(out), stepsShowCommand(out))
	return c
}

// stepsWanted selects steps. Empty fields select all.
type stepsWanted struct {
	schema, consumer, saga, state string
	limit                         int
	asJSON                        bool
}

func (w *stepsWanted) flags(c *cobra.Command) {
	connect.ListFlags(c, &w.schema, &w.asJSON)
	f := c.Flags()
	connect.Filter(f, &w.consumer, "consumer", "only of this consumer `GROUP`")
	connect.Filter(f, &w.saga, "saga", "only of the saga with this `ID`; for a choreographed saga, its key")
}

func stepsListCommand(out io.Writer) *cobra.Command {
	w := &stepsWanted{}
	c := &cobra.Command{Use: "list", Short: "List steps and their states", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if w.state != "" && !slices.Contains(operate.StepStates(), w.state) {
				return &cli.UsageError{What: fmt.Sprintf("--state is one of %s, not %q",
					strings.Join(operate.StepStates(), ", "), w.state)}
			}
			if err := connect.Limit(w.limit); err != nil {
				return err
			}
			return w.list(c, out)
		}}
	w.flags(c)
	connect.Filter(c.Flags(), &w.state, "state", "only steps in this `STATE`: "+
		strings.Join(operate.StepStates(), ", "))
	c.Flags().IntVar(&w.limit, "limit", 100, "list at most `N`")
	return c
}

// stepsRead is the maximum number of steps that skald steps list reads.
const stepsRead = 10_000

// list prints the newest of the selected steps.
func (w *stepsWanted) list(c *cobra.Command, out io.Writer) error {
	found := newestBy(w.limit, func(a, b *operate.SagaStep) int { return a.ChangedAt.Compare(b.ChangedAt) })
	all := *w
	all.limit = stepsRead
	if err := all.each(c, func(s *operate.SagaStep) error {
		found.add(*s)
		return nil
	}); err != nil {
		return err
	}
	t, list := cli.Table(out), found.sort()
	for i := range list {
		s := &list[i]
		if w.asJSON {
			if err := cli.JSON(out).Encode(s); err != nil {
				return err
			}
			continue
		}
		if i == 0 {
			fmt.Fprintln(t, "consumer\tsaga\tstep\tstate\tsince\tdone by\tundone or barred by")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Consumer, cli.Line(s.Saga), stepName(s), s.State,
			cli.Time(s.ChangedAt), cli.Line(s.ID), cli.Line(s.ByID))
	}
	err := t.Flush()
	if found.all == stepsRead {
		fmt.Fprintf(c.ErrOrStderr(), "only %d steps were read, by consumer and saga: select with --consumer, --saga or --state\n",
			stepsRead)
	}
	cli.Ended(c.ErrOrStderr(), len(list), found.all, "steps", w.asJSON)
	return err
}

func stepsShowCommand(out io.Writer) *cobra.Command {
	w := &stepsWanted{limit: 1000}
	c := &cobra.Command{Use: "show", Short: "Show the steps of one saga", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if w.saga == "" {
				return &cli.UsageError{What: "which saga? Give --saga"}
			}
			n := 0
			err := w.each(c, func(s *operate.SagaStep) error {
				n++
				if w.asJSON {
					return cli.JSON(out).Encode(s)
				}
				return tellStep(out, s)
			})
			if err == nil && n == 0 {
				err = w.elsewhere(c)
			}
			return err
		}}
	w.flags(c)
	return c
}

// elsewhere returns the error for a saga without steps. If the saga is orchestrated, the error has the
// command that shows the saga.
func (w *stepsWanted) elsewhere(c *cobra.Command) error {
	none := &cli.NoneError{What: "this database has no step of saga " + w.saga}
	return unchecked(c, w.schema, func(ctx context.Context, db store.Lister) error {
		list, err := operate.Sagas(ctx, db, operate.SagaSelection{Key: w.saga, Limit: 1})
		if err == nil && len(list) > 0 {
			none.What = fmt.Sprintf("%s is an orchestrated saga: skald saga show%s %s %s", w.saga,
				spaced(connect.Same(c, w.schema)), list[0].Name, shortlog.Shell(w.saga))
		}
		return none // even if the user may not read sagas
	})
}

// spaced returns flags with a space before them, or "" without flags.
func spaced(flags string) string {
	if flags == "" {
		return ""
	}
	return " " + flags
}

// stepName returns the name of a step with its occurrence.
func stepName(s *operate.SagaStep) string {
	if s.Occurrence == "" {
		return s.Step
	}
	return s.Step + "/" + s.Occurrence
}

func tellStep(out io.Writer, s *operate.SagaStep) error {
	t := cli.Table(out)
	line := func(what, is string) {
		if is != "" {
			fmt.Fprintf(t, "  %s\t%s\n", what, cli.Line(is))
		}
	}
	fmt.Fprintf(t, "%s of %s at %s: %s\n", stepName(s), cli.Line(s.Saga), s.Consumer, s.State)
	line("done by", messageName(s.Source, s.ID))
	line("undone or barred by", messageName(s.BySource, s.ByID))
	if s.Code != 0 || len(s.Result) > 0 {
		line("answer", fmt.Sprintf("%d %s", s.Code, s.Result))
	}
	line("key at the provider", s.OutsideKey)
	line("outcome", string(s.Outcome))
	line("saga begun", cli.When(s.Begun))
	line("first seen", cli.Time(s.At))
	line("changed", cli.Time(s.ChangedAt))
	return t.Flush()
}

func messageName(source, id string) string {
	if id == "" {
		return ""
	}
	return id + " of " + source
}

// each calls f with each selected step.
func (w *stepsWanted) each(c *cobra.Command, f func(*operate.SagaStep) error) error {
	return unchecked(c, w.schema, func(ctx context.Context, db store.Lister) error {
		list, err := operate.Steps(ctx, db, operate.StepSelection{Consumer: w.consumer, Saga: w.saga,
			State: w.state, Limit: w.limit})
		for i := range list {
			if err := f(&list[i]); err != nil {
				return err
			}
		}
		return err
	})
}

// stepsTold describes the steps of a saga that this database has no tracker or engine for. It returns nil if
// the user may not read steps.
func stepsTold(ctx context.Context, db store.Lister, saga, at string) ([]string, error) {
	list, err := operate.Steps(ctx, db, operate.StepSelection{Saga: saga, Limit: 10})
	if len(list) == 0 || err != nil {
		if errors.As(err, new(*store.RightError)) {
			err = nil
		}
		return nil, err
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = fmt.Sprintf("%s at %s: %s", stepName(&list[i]), list[i].Consumer, list[i].State)
	}
	return []string{fmt.Sprintf("this database has steps of a saga %.100q (%s): skald steps list %s", saga,
		strings.Join(names, ", "), strings.TrimSpace(at+" --saga "+shortlog.Shell(saga)))}, nil
}
