package verbs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
)

func tellCheck(out io.Writer, list []operate.SagaCheck, asJSON bool) error {
	left := 0
	for i := range list {
		c := &list[i]
		left += c.Sagas - c.Moves
		if asJSON {
			if err := cli.JSON(out).Encode(c); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(out, "%s %s: %d of %d sagas go on\n", c.Name, c.Hash, c.Moves, c.Sagas)
		for _, change := range c.Changes {
			fmt.Fprintf(out, "  %s\n", cli.Line(change))
		}
		for _, r := range c.Refused {
			fmt.Fprintf(out, "  %s stays with the older build: %s\n", cli.ShortKey(r.Key), cli.Line(r.Why))
		}
	}
	if left > 0 {
		return &cli.FailedError{Err: fmt.Errorf(
			"left to the older build: %s: let it finish them, or give a mapping", cli.Count(left, "saga"))}
	}
	return nil
}

// short says what each verb does.
func short(verb operate.SagaVerb) string {
	return map[operate.SagaVerb]string{
		operate.RetrySaga:    "Try a step now that waits or is stuck; without --step all that are stuck",
		operate.CompleteSaga: "Count a step as done, with --data as its output",
		operate.SkipSaga:     "Count a step as passed, or its undo as done",
		operate.CancelSaga:   "Turn sagas back: what was done is undone",
		operate.PauseSaga:    "Begin nothing any more; what is under way is still taken in",
		operate.ResumeSaga:   "Go on with sagas that are paused",
		operate.SignalSaga:   "Send a signal, with --data",
	}[verb]
}

func verbCommand(out, errs io.Writer, verb operate.SagaVerb) *cobra.Command {
	w, change, data := &sagasWanted{}, operate.SagaChange{Verb: verb}, ""
	c := &cobra.Command{Use: string(verb) + " [[NAME] KEY]", Short: short(verb), Args: cobra.MaximumNArgs(2)}
	w.ChangeFlags(c)
	w.flags(c)
	w.filters(c)
	f := c.Flags()
	f.BoolVar(&w.which.All, "all", false, "all that there are, where nothing else says which")
	steps := verb == operate.RetrySaga || verb == operate.CompleteSaga || verb == operate.SkipSaga
	if steps {
		connect.Filter(f, &change.Step, "step", "which step")
	}
	if verb == operate.SignalSaga {
		f.StringVar(&change.Signal, "signal", "", "which signal")
	}
	if steps || verb == operate.SignalSaga {
		f.StringVar(&change.Occurrence, "occurrence", "", "which occurrence of it")
	}
	if verb == operate.CompleteSaga || verb == operate.SignalSaga {
		connect.DataFlag(c, &data, "JSON")
	}
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if err := w.named(args); err != nil {
			return err
		}
		if err := w.Reasoned(string(verb)); err != nil {
			return err
		}
		if c.Flags().Changed("data") {
			if change.Data, err = connect.Payload(data, c.InOrStdin()); err != nil {
				return err
			}
		}
		if !w.Dry && !w.which.All && !w.which.Filtered() {
			return &cli.UsageError{What: string(verb) + " which sagas? Give a KEY, or flags that choose " +
				"(--name, --status, --at …); or --all, if all of them are meant"}
		}
		return w.write(c, func(ctx context.Context, k sagasKeeper) error {
			r, err := w.change(ctx, k, change, w.order(errs, verb))
			if errors.As(err, new(*operate.NoneError)) {
				err = cmp.Or(w.known(ctx, k), err)
			}
			if err != nil && !errors.As(err, new(*operate.PartlyError)) {
				return err
			}
			return errors.Join(tellChanged(out, w.JSON, w.Dry, string(verb), &r), refused(&r, err))
		})
	}
	return c
}

// refused is err, or where nothing came of the verb, and nobody was first: what was wrong, with it or with
// how the sagas stand.
func refused(r *operate.SagaReport, err error) error {
	unfit := func(l operate.LeftSaga) bool { return l.Unfit }
	first := func(l operate.LeftSaga) bool { return l.First }
	switch {
	case err == nil || r.Done+r.Before > 0 || slices.ContainsFunc(r.Left, first):
		return err
	case slices.ContainsFunc(r.Left, unfit):
		return &cli.UsageError{What: err.Error()}
	}
	return &cli.StateError{What: err.Error()}
}

// change is of one saga, or of many in a run: the same command again goes on with one that was interrupted.
func (w *sagasWanted) change(ctx context.Context, k sagasKeeper, c operate.SagaChange,
	o operate.Order) (operate.SagaReport, error) {
	if w.which.Key != "" {
		return operate.ChangeSagas(ctx, k, w.which, c, o)
	}
	name, err := w.run(c)
	if err != nil {
		return operate.SagaReport{}, err
	}
	return operate.RunSagas(ctx, k, name, w.which, c, o)
}

// run names the change of these sagas for this reason.
func (w *sagasWanted) run(c operate.SagaChange) (string, error) {
	which := w.which
	which.StartedAfter, which.StartedBefore = time.Time{}, time.Time{} // "2h ago" is another time each time
	return runName("saga-"+string(c.Verb), which, w.started, w.before, c, w.Reason)
}

// runName is the same each time that the same is wanted, so that the same command goes on with a run.
func runName(verb string, wanted ...any) (string, error) {
	b, err := json.Marshal(wanted)
	if err != nil {
		return "", fmt.Errorf("name the run: %w", err)
	}
	sum := sha256.Sum256(b)
	return verb + "-" + hex.EncodeToString(sum[:6]), nil
}

// order asks before more than one saga is changed.
func (w *sagasWanted) order(errs io.Writer, verb operate.SagaVerb) operate.Order {
	o := operate.Order{Author: w.By, Reason: w.Reason, DryRun: w.Dry}
	if !w.Yes {
		o.Confirm = func(ctx context.Context, n int) error {
			if n == 1 && w.which.Key != "" {
				return nil
			}
			return connect.Yes(ctx, errs, fmt.Sprintf("%s %s?", verb, cli.Count(n, "saga")),
				fmt.Sprintf("%s would change %s: if that is meant, add --yes", verb, cli.Count(n, "saga")))
		}
	}
	return o
}

func tellChanged(out io.Writer, asJSON, dry bool, verb string, r *operate.SagaReport) error {
	if asJSON {
		return cli.JSON(out).Encode(map[string]any{"what": verb, "meant": r.Selected, "done": r.Done,
			"left": r.Left, "dry_run": dry, "run": r.Run, "before": r.Before})
	}
	word := "changed"
	if dry {
		word = "would be changed"
	}
	if r.Before > 0 {
		word += fmt.Sprintf(", and %d before, by the same run", r.Before)
	}
	if r.Run != "" {
		word += "; run " + r.Run
	}
	_, err := fmt.Fprintf(out, "%s: %d of %d sagas %s\n", verb, r.Done, r.Selected, word)
	for _, l := range r.Left {
		_, wrote := fmt.Fprintf(out, "  %s %s is left: %s\n", l.Name, cli.ShortKey(l.Key), cli.Line(l.Why))
		err = errors.Join(err, wrote)
	}
	return err
}
