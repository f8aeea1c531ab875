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
	"strings"
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
		left += c.Sagas - c.Continue
		if asJSON {
			if err := cli.JSON(out).Encode(c); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(out, "%s %s: %d of %d sagas can continue\n", c.Name, c.Hash, c.Continue, c.Sagas)
		for _, change := range c.Changes {
			fmt.Fprintf(out, "  %s\n", cli.Line(change))
		}
		tellRefused(out, c)
	}
	if left > 0 {
		return &cli.FailedError{Err: fmt.Errorf(
			"left to the older build: %s: let that build finish them, or add a mapping", cli.Count(left, "saga"))}
	}
	return nil
}

// tellRefused prints the sagas that the next build cannot resume, by reason.
func tellRefused(out io.Writer, c *operate.SagaCheck) {
	var reasons []string
	keys := map[string][]string{}
	for _, r := range c.Refused {
		if keys[r.Why] == nil {
			reasons = append(reasons, r.Why)
		}
		keys[r.Why] = append(keys[r.Why], cli.ShortKey(r.Key))
	}
	for _, why := range reasons {
		shown := strings.Join(keys[why][:min(len(keys[why]), 5)], ", ")
		if len(keys[why]) > 5 {
			shown += ", …"
		}
		fmt.Fprintf(out, "  %s with the older build: %s: %s\n", stays(len(keys[why])), cli.Line(why), shown)
	}
	if more := c.Sagas - c.Continue - len(c.Refused); more > 0 {
		fmt.Fprintf(out, "  %s, too\n", stays(more))
	}
}

func stays(n int) string {
	if n == 1 {
		return "1 saga stays"
	}
	return fmt.Sprintf("%d sagas stay", n)
}

// tellLast prints the changes between the last definitions in the database and the next build. It omits
// definitions that running sagas have, because these are printed already.
func tellLast(out io.Writer, last, running []operate.SagaCheck, asJSON bool) error {
	for i := range last {
		c := &last[i]
		same := func(r operate.SagaCheck) bool { return r.Hash == c.Hash && r.Name == c.Name }
		if slices.ContainsFunc(running, same) {
			continue
		}
		if asJSON {
			if err := cli.JSON(out).Encode(c); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(out, "%s %s: the last definition in this database; sagas may still start with it\n", c.Name,
			c.Hash)
		for _, change := range c.Changes {
			fmt.Fprintf(out, "  %s\n", cli.Line(change))
		}
	}
	return nil
}

// help returns the short and the long help of a verb.
func help(verb operate.SagaVerb) (short, long string) {
	text := map[operate.SagaVerb][2]string{
		operate.RetrySaga: {"Run a waiting or stuck step now",
			`Runs a waiting or stuck step now. Without --step it runs each stuck step.`},
		operate.CompleteSaga: {"Record a step as done, with --data as its output",
			`Records a step as done without running it, with --data as its output. Use it if the effect has
happened: the saga continues, and undoes the step if it turns back.`},
		operate.SkipSaga: {"Skip a step, or record its undo as done",
			`Skips a step. Use it if the effect has not happened: the saga continues and never undoes the step. If
the saga is turning back, it records the undo of the step as done.`},
		operate.CancelSaga: {"Cancel sagas and undo their finished steps",
			`Cancels sagas: they turn back and undo their finished steps. A saga past its pivot cannot turn back.`},
		operate.PauseSaga: {"Pause sagas; running steps finish",
			`Pauses sagas. Running steps finish, and no other step begins until skald saga resume.`},
		operate.ResumeSaga: {"Resume paused sagas", `Resumes paused sagas.`},
		operate.SignalSaga: {"Send a signal to a saga, with --data",
			`Sends a signal to sagas, with --data as its value.`},
	}[verb]
	return text[0], text[1]
}

func verbCommand(out, errs io.Writer, verb operate.SagaVerb) *cobra.Command {
	w, change, data := &sagasWanted{}, operate.SagaChange{Verb: verb}, ""
	short, long := help(verb)
	c := &cobra.Command{Use: string(verb) + " [[NAME] KEY]", Short: short, Long: long + `

Give the key of a saga, or flags that select many.`, Args: cobra.MaximumNArgs(2)}
	w.ChangeFlags(c)
	w.flags(c)
	w.filters(c)
	f := c.Flags()
	f.BoolVar(&w.which.All, "all", false, "select all sagas that have not ended; required if no other flag selects sagas")
	steps := verb == operate.RetrySaga || verb == operate.CompleteSaga || verb == operate.SkipSaga
	if steps {
		connect.Filter(f, &change.Step, "step", "the `STEP`")
	}
	if verb == operate.SignalSaga {
		f.StringVar(&change.Signal, "signal", "", "`NAME` of the signal")
	}
	if steps || verb == operate.SignalSaga {
		f.StringVar(&change.Occurrence, "occurrence", "", "its `OCCURRENCE`")
	}
	if verb == operate.CompleteSaga || verb == operate.SignalSaga {
		connect.DataFlag(c, &data, "`JSON` value")
	}
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if err := w.named(args); err != nil {
			return err
		}
		if err := w.reasoned(c, string(verb)); err != nil {
			return err
		}
		if c.Flags().Changed("data") {
			if change.Data, err = connect.Payload(data, c.InOrStdin()); err != nil {
				return err
			}
		}
		if !w.Dry && !w.which.All && !w.which.Filtered() {
			return &cli.UsageError{What: string(verb) + " which sagas? Give a KEY, or flags that select " +
				"(--name, --status, --at …); or give --all to select all"}
		}
		return w.write(c, func(ctx context.Context, k sagasKeeper) error {
			r, err := w.change(ctx, k, change, w.order(errs, verb))
			if none := new(operate.NoMatchError); errors.As(err, &none) {
				err = cmp.Or(w.checkNames(ctx, k), err)
				if errors.As(err, &none) && w.which.Key+w.which.ID == "" {
					fmt.Fprintln(errs, "skald: "+none.Reason)
					err = nil
				}
			}
			if err != nil && !errors.As(err, new(*operate.PartialError)) {
				return err
			}
			return errors.Join(tellChanged(out, w.JSON, w.Dry, string(verb), &r), refused(&r, err))
		})
	}
	return c
}

// reasoned returns an error if there is no reason. If the saga does not exist either, it reports that first.
func (w *sagasWanted) reasoned(c *cobra.Command, verb string) error {
	missing := w.Reasoned(verb)
	if missing == nil || w.which.Key == "" {
		return missing
	}
	return w.look(c, func(ctx context.Context, k sagasKeeper) error {
		_, err := operate.ReadSaga(ctx, k, w.which.Name, w.which.Key)
		return cmp.Or(err, missing)
	})
}

// refused returns err, with another exit code if no saga was changed: a usage error if the change does not
// fit the sagas, or else a state error. It returns err itself if another process changed a saga first.
func refused(r *operate.SagaReport, err error) error {
	unfit := func(l operate.LeftSaga) bool { return l.Incompatible }
	first := func(l operate.LeftSaga) bool { return l.Unneeded }
	switch {
	case err == nil || r.Done+r.Before > 0 || slices.ContainsFunc(r.Left, first):
		return err
	case slices.ContainsFunc(r.Left, unfit):
		return &cli.UsageError{What: err.Error()}
	}
	return &cli.StateError{What: err.Error()}
}

// change changes the saga with the key, or all selected sagas in a run. The same command continues an
// interrupted run.
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

// run returns the name of the run, made from the selection, the change and the reason.
func (w *sagasWanted) run(c operate.SagaChange) (string, error) {
	which := w.which
	which.StartedAfter, which.StartedBefore = time.Time{}, time.Time{} // these times change with each call
	return runName("saga-"+string(c.Verb), which, w.started, w.before, c, w.Reason)
}

// runName returns the same name for the same arguments, so that the same command continues a run.
func runName(verb string, wanted ...any) (string, error) {
	b, err := json.Marshal(wanted)
	if err != nil {
		return "", fmt.Errorf("name the run: %w", err)
	}
	sum := sha256.Sum256(b)
	return verb + "-" + hex.EncodeToString(sum[:6]), nil
}

// order returns the order. It asks for confirmation before several sagas change.
func (w *sagasWanted) order(errs io.Writer, verb operate.SagaVerb) operate.Order {
	o := operate.Order{Author: w.By, Reason: w.Reason, DryRun: w.Dry}
	if !w.Yes {
		o.Confirm = func(ctx context.Context, n int) error {
			if n == 1 && w.which.Key != "" {
				return nil
			}
			return connect.Yes(ctx, errs, fmt.Sprintf("%s %s?", verb, cli.Count(n, "saga")),
				fmt.Sprintf("%s would change %s: to confirm, add --yes", verb, cli.Count(n, "saga")))
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
		word += fmt.Sprintf(", and %d earlier in the same run", r.Before)
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
