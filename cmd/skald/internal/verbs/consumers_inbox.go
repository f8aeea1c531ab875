// This file has the commands skald inbox (messages at consumers) and skald consumer (consumers).

package verbs

import (
	"cmp"
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

const inboxAbout = `Shows the state of messages at consumers, and the quarantine: messages that Skald can neither drop nor
handle without a decision of an operator.`

// InboxCommand returns skald inbox.
func InboxCommand(out, errs io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "inbox", Short: "Inspect messages at consumers and manage the quarantine",
		Long: inboxAbout}
	c.AddCommand(statusCommand(out), showCommand(out), admitCommand(out, errs))
	return c
}

// ConsumersCommand returns skald consumer.
func ConsumersCommand(out, errs io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "consumer", Short: "Pause, resume, rewind, rename and adopt consumers",
		Long: `Operates consumers. Each change is recorded in skald_audit, with its author and its reason.`}
	c.AddCommand(steerCommand(out, "pause", "Pause a consumer; running handlers finish", pauseAbout),
		steerCommand(out, "resume", "Resume a consumer and close its circuit breakers", resumeAbout),
		steerCommand(out, "skip", "Turn messages that fail with one error into dead letters", skipAbout),
		rewindCommand(out, errs), renameCommand(out, errs), adoptGroupCommand(out), importCommand(out, errs),
		missedCommand(out, errs))
	return c
}

// knower is the part of a store that these commands need.
type knower interface {
	operate.ShowStore
	operate.QuarantineStore
	operate.HistoryStore
	operate.PositionStore
	store.Operator
	Check(ctx context.Context, as store.Role) error
}

// withKnower calls f with the store that the flags select, and closes the store afterwards. If dryRun is
// true, it does not check the rights to write, because a dry run does not need them.
func withKnower(c *cobra.Command, schema string, dryRun bool, f func(context.Context, knower) error) error {
	if dryRun {
		return unchecked(c, schema, f)
	}
	return With(c, schema, store.App, f)
}

const statusAbout = `Counts the messages in quarantine by consumer and reason, with the time of the oldest:

  conflict   a different payload was handled under the same source and id
  too old    older than the retention of marks, so it may have been handled before

Messages in quarantine block no other message. skald inbox admit delivers them.`

func statusCommand(out io.Writer) *cobra.Command {
	var schema string
	var asJSON bool
	c := &cobra.Command{Use: "status", Short: "List the messages in quarantine", Long: statusAbout,
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
			cli.Ended(c.ErrOrStderr(), len(groups), len(groups), "messages in quarantine", asJSON)
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

const admitAbout = `Delivers messages in quarantine to their consumers, once each, within seconds. A message that is too
old may have been handled before. A message in conflict is handled in addition to the other message with
its id. Check the message first with skald inbox show.`

func admitCommand(out, errs io.Writer) *cobra.Command {
	var schema, why string
	var a operate.Admission
	var o operate.Order
	var asJSON, sure bool
	c := &cobra.Command{Use: "admit", Short: "Deliver quarantined messages to the consumer", Long: admitAbout,
		Args: cobra.NoArgs}
	connect.StoreFlags(c, &schema, &asJSON)
	f := c.Flags()
	f.Int64Var(&a.Number, "number", 0, "the message with this `NUMBER` in skald inbox show")
	connect.ByID(c, &a.ID)
	connect.Filter(f, &a.Consumer, "consumer", "messages of this consumer `GROUP`")
	connect.Filter(f, &a.Topic, "topic", "messages of this `TOPIC`")
	connect.Filter(f, &a.Type, "type", "messages of this `TYPE`")
	connect.Filter(f, &why, "why", "messages with this `REASON`: conflict or too-old")
	f.BoolVar(&a.All, "all", false, "all messages in quarantine")
	connect.AuditFlags(f, &o.Reason, &o.Author)
	f.BoolVar(&o.DryRun, "dry-run", false, "print the messages, and change nothing")
	f.BoolVar(&sure, "yes", false, "do not ask for confirmation")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var err error
		if a.Why, err = reasonOf(why); err != nil {
			return err
		}
		if a == (operate.Admission{}) {
			return &cli.UsageError{
				What: "which messages? Give an ID, --number, --consumer, --topic, --type, --why or --all"}
		}
		if !o.DryRun && strings.TrimSpace(o.Reason) == "" {
			return withKnower(c, schema, true, func(ctx context.Context, k knower) error {
				_, err := operate.Admit(ctx, k, a, operate.Order{DryRun: true})
				if a.ID == "" && a.Number == 0 {
					err = nil
				}
				return cmp.Or(err, error(&cli.UsageError{What: "why? Give --reason"}))
			})
		}
		if !sure {
			o.Confirm = func(ctx context.Context, n int) error {
				return connect.Yes(ctx, errs, cli.Count(n,
					"message")+".\nDeliver them to their consumers?",
					fmt.Sprintf(
						"inbox admit: %s: list them with --dry-run; to deliver them, add --yes",
						cli.Count(n, "message")))
			}
		}
		return withKnower(c, schema, o.DryRun, func(ctx context.Context, k knower) error {
			r, err := operate.Admit(ctx, k, a, o)
			if none := new(operate.NoMatchError); errors.As(err, &none) && a.ID == "" && a.Number == 0 {
				fmt.Fprintln(errs, "skald: "+none.Reason)
				if !asJSON {
					return nil
				}
				err = nil
			}
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
			"The selected messages are admitted already; their consumers handle them within seconds.")
		return err
	}
	_, err := fmt.Fprintf(out, "admitted: %s; their consumers handle them within seconds.\n",
		cli.Count(r.Done, "message"))
	return err
}
