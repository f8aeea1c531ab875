// This file has the commands of skald inbox: what a consumer knows of messages, where it stands, and
// what an operator has it do.

package verbs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// ConsumersCommand is skald inbox.
func ConsumersCommand(out, errs io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "inbox",
		Short: "What consumers know of messages, and what they can neither drop nor take"}
	c.AddCommand(statusCommand(out), showCommand(out), admitCommand(out, errs), importCommand(out, errs),
		rewindCommand(out, errs),
		renameCommand(out, errs), adoptGroupCommand(out),
		steerCommand(out, "pause", "Have a consumer begin no more messages", pauseAbout),
		steerCommand(out, "resume", "Have a consumer go on", resumeAbout),
		steerCommand(out, "skip", "Have messages that fail in one way put away as dead letters", skipAbout),
		missedCommand(out, errs))
	return c
}

// knower is what these commands ask of a store.
type knower interface {
	operate.Shower
	operate.Quarantine
	operate.Historian
	operate.Positions
	store.Operator
	Check(ctx context.Context, as store.Role) error
}

// withKnower opens the store that the flags name for as long as f takes. A look, as each dry run is one,
// wants no right to write.
func withKnower(c *cobra.Command, schema string, look bool, f func(context.Context, knower) error) error {
	if look {
		return unchecked(c, schema, f)
	}
	return With(c, schema, store.App, f)
}

const statusAbout = `Says how many messages are in quarantine, of which consumer and why, and since when: those of which another payload was
taken under the same identity (conflict), and those that are older than marks are kept, so that nobody knows whether they
were taken (too old). They hold nobody up, and wait for skald inbox admit, which takes the number of one.`

func statusCommand(out io.Writer) *cobra.Command {
	var schema string
	var asJSON bool
	c := &cobra.Command{Use: "status", Short: "What is in quarantine, and nothing else", Long: statusAbout,
		Args: cobra.NoArgs}
	connect.StoreFlags(c, &schema, &asJSON)
	c.RunE = func(c *cobra.Command, _ []string) error {
		return withKnower(c, schema, true, func(ctx context.Context, k knower) error {
			groups, err := operate.QuarantineGroups(ctx, k)
			if err != nil {
				return fmt.Errorf("inbox status: %w", err)
			}
			if asJSON {
				return cli.JSON(out).Encode(map[string]any{"quarantine": groups})
			}
			cli.None(c.ErrOrStderr(), len(groups), asJSON)
			w := cli.Table(out)
			for i, g := range groups {
				if i == 0 {
					fmt.Fprintln(w, "consumer\twhy\twaiting\tadmitted\toldest\tfirst number")
				}
				fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%d\n", g.Consumer, g.Why, g.Waiting, g.Admitted,
					cli.Time(g.Oldest), g.First)
			}
			return w.Flush()
		})
	}
	return c
}

const admitAbout = `Has messages in quarantine taken by their consumers, each once, within some seconds. One that is too old may have been
taken before it was forgotten; one in conflict is taken beside the one that had its identity: look first, with skald
inbox show. It is noted who admitted a message and why.`

func admitCommand(out, errs io.Writer) *cobra.Command {
	var schema, why string
	var a operate.Admission
	var o operate.Order
	var asJSON, sure bool
	c := &cobra.Command{Use: "admit", Short: "Have messages in quarantine taken", Long: admitAbout,
		Args: cobra.NoArgs}
	connect.StoreFlags(c, &schema, &asJSON)
	f := c.Flags()
	f.Int64Var(&a.Number, "number", 0, "this one, as skald inbox show numbers it")
	connect.ByID(c, &a.ID)
	connect.Filter(f, &a.Consumer, "consumer", "those of this consumer")
	connect.Filter(f, &a.Topic, "topic", "those of this topic")
	connect.Filter(f, &a.Type, "type", "those of this type")
	connect.Filter(f, &why, "why", "conflict or too-old: those that are there for that")
	f.BoolVar(&a.All, "all", false, "all that there are")
	f.StringVar(&o.Reason, "reason", "", "why; it is noted")
	f.StringVar(&o.Author, "by", connect.Whoami(), "who does it, for the audit")
	f.BoolVar(&o.DryRun, "dry-run", false, "say what would be admitted, and change nothing")
	f.BoolVar(&sure, "yes", false, "do not ask")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var err error
		if a.Why, err = reasonOf(why); err != nil {
			return err
		}
		switch {
		case a == (operate.Admission{}):
			return &cli.UsageError{
				What: "which messages? Give an ID, --number, --consumer, --topic, --type, --why or --all"}
		case !o.DryRun && strings.TrimSpace(o.Reason) == "":
			return &cli.UsageError{What: "why? Give --reason"}
		}
		if !sure {
			o.Confirm = func(ctx context.Context, n int) error {
				return connect.Yes(ctx, errs, cli.Count(n,
					"message")+".\nShall consumers take what is admitted?",
					fmt.Sprintf(
						"inbox admit: %s: look with --dry-run; if that is meant, add --yes",
						cli.Count(n, "message")))
			}
		}
		return withKnower(c, schema, o.DryRun, func(ctx context.Context, k knower) error {
			r, err := operate.Admit(ctx, k, a, o)
			if !cli.Reported(err) {
				return fmt.Errorf("inbox admit: %w", err)
			}
			return errors.Join(tellAdmitted(out, &r, o.DryRun, asJSON), err)
		})
	}
	return c
}

func reasonOf(why string) (store.Outcome, error) {
	switch why {
	case "":
		return store.Fresh, nil
	case "conflict":
		return store.Conflict, nil
	case "too-old", "too old":
		return store.TooOld, nil
	}
	return 0, &cli.UsageError{What: "--why is conflict or too-old"}
}

func tellAdmitted(out io.Writer, r *operate.AdmitReport, dry, asJSON bool) error {
	switch {
	case asJSON:
		return cli.JSON(out).Encode(map[string]any{"chosen": r.Selected, "admitted": r.Done,
			"dry_run": dry})
	case dry:
		w := cli.Table(out)
		for _, q := range r.Chosen {
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", q.Number, q.Consumer, q.Why, q.Message.Topic,
				cli.Line(q.Message.Type), cli.Line(q.ID))
		}
		return w.Flush()
	case r.Selected == 0:
		_, err := fmt.Fprintln(out,
			"What is selected is admitted already; its consumers take it within some seconds.")
		return err
	}
	_, err := fmt.Fprintf(out, "admitted: %s; consumers take what is admitted within some seconds.\n",
		cli.Count(r.Done, "message"))
	return err
}
