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

// Steps is skald steps.
func Steps(out io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "steps", Short: "Steps of sagas: what took effect, what is barred, and by what"}
	c.AddCommand(stepsListCommand(out), stepsShowCommand(out))
	return c
}

// stepsWanted say which steps are meant; empty ones do not matter.
type stepsWanted struct {
	schema, consumer, saga, state string
	limit                         int
	asJSON                        bool
}

func (w *stepsWanted) flags(c *cobra.Command) {
	connect.ListFlags(c, &w.schema, &w.asJSON)
	f := c.Flags()
	connect.Filter(f, &w.consumer, "consumer", "only of this consumer group")
	connect.Filter(f, &w.saga, "saga", "only of this saga")
}

func stepsListCommand(out io.Writer) *cobra.Command {
	w := &stepsWanted{}
	c := &cobra.Command{Use: "list", Short: "How steps stand", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if w.state != "" && !slices.Contains(operate.StepStates(), w.state) {
				return &cli.UsageError{What: fmt.Sprintf("--state is one of %s, not %q",
					strings.Join(operate.StepStates(), ", "), w.state)}
			}
			if err := connect.Limit(w.limit); err != nil {
				return err
			}
			t := cli.Table(out)
			n := 0
			err := w.each(c, func(s *operate.SagaStep) error {
				n++
				if w.asJSON {
					return cli.JSON(out).Encode(s)
				}
				if n == 1 {
					fmt.Fprintln(t, "consumer\tsaga\tstep\tstate\tsince\ttaken by\tundone or barred by")
				}
				_, err := fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Consumer, cli.Line(s.Saga),
					stepName(s), s.State, cli.Time(s.ChangedAt), cli.Line(s.ID),
					cli.Line(s.ByID))
				return err
			})
			if err == nil {
				cli.None(c.ErrOrStderr(), n, w.asJSON)
			}
			return errors.Join(err, t.Flush())
		}}
	w.flags(c)
	connect.Filter(c.Flags(), &w.state, "state", "only those that stand so: "+
		strings.Join(operate.StepStates(), ", "))
	c.Flags().IntVar(&w.limit, "limit", 100, "at most so many")
	return c
}

func stepsShowCommand(out io.Writer) *cobra.Command {
	w := &stepsWanted{limit: 1000}
	c := &cobra.Command{Use: "show", Short: "All that is known of the steps of a saga", Args: cobra.NoArgs,
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
				err = &cli.NoneError{What: "nothing is known of any step of saga " + w.saga}
			}
			return err
		}}
	w.flags(c)
	return c
}

// stepName is of the step, with its occurrence.
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
	line("taken by", messageName(s.Source, s.ID))
	line("undone or barred by", messageName(s.BySource, s.ByID))
	if s.Code != 0 || len(s.Result) > 0 {
		line("answered", fmt.Sprintf("%d %s", s.Code, s.Result))
	}
	line("called outside as", s.OutsideKey)
	line("outcome", string(s.Outcome))
	line("saga begun", cli.When(s.Begun))
	line("first heard of", cli.Time(s.At))
	line("so since", cli.Time(s.ChangedAt))
	return t.Flush()
}

func messageName(source, id string) string {
	if id == "" {
		return ""
	}
	return id + " of " + source
}

// each reads the steps that are meant.
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

// stepsTold tells of steps that participants have taken for a saga where nobody tracks it. Nothing is said
// where the user may not read them.
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
	return []string{fmt.Sprintf("steps of a saga %.100q are known here (%s): skald steps list %s", saga,
		strings.Join(names, ", "), strings.TrimSpace(at+" --saga "+shortlog.Shell(saga)))}, nil
}
