package verbs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
)

const redriveAbout = `Delivers dead letters again to the consumer that failed, within seconds, under the same id, one message
of a key at a time. Later messages of the same key follow. The attempts of a redriven message are counted
from zero. If a dead letter does not block its key, and another message of the key has an external call in
progress, the dead letter waits for that message. Rejections are left out, because other services have
received the rejection: use skald dead edit or skald dead drop.

--canary redrives one message, and the others only if it succeeds. --rate limits the messages per second.
With one of these flags, the command waits for the outcomes. It stops with exit code 8 if more than
--max-error-ratio of the redriven messages fail again. If the command is interrupted, the same command
continues and redrives nothing twice. Without these flags it does not wait: skald dead redrives lists the
outcomes.`

func redriveCommand(out, errs io.Writer) *cobra.Command {
	w, pace := &wanted{dead: true}, operate.Pace{}
	c := &cobra.Command{Use: "redrive", Short: "Deliver dead letters again to the consumer that failed",
		Long: redriveAbout, Args: cobra.NoArgs}
	w.bulkFlags(c)
	f := c.Flags()
	f.BoolVar(&pace.Canary, "canary", false, "redrive one message, and the others only if it succeeds")
	f.Float64Var(&pace.Rate, "rate", 0, "redrive `N` messages per second (default: all at once)")
	f.Float64Var(&pace.MaxErrors, "max-error-ratio", 0.1,
		"stop if more than this `SHARE` of the redriven messages, counted as ten or more, fail again")
	f.DurationVar(&pace.Wait, "wait", time.Minute,
		"with --canary, --rate or --max-error-ratio: `TIME` to wait for the outcome of the canary and of the last messages")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if pace.Rate < 0 || pace.MaxErrors < 0 || pace.MaxErrors > 1 || pace.Wait <= 0 {
			return &cli.UsageError{What: "--rate is 0 (all at once) or more, --wait is positive, and --max-error-ratio is from 0 to 1"}
		}
		if pace.Canary || pace.Rate > 0 || f.Changed("max-error-ratio") {
			pace.Run = w.run()
		} else if f.Changed("wait") {
			return &cli.UsageError{What: "--wait is for --canary, --rate and --max-error-ratio"}
		}
		return w.bulk(c, errs, "redrive", func(ctx context.Context, k keeper, o operate.Order) error {
			r, err := operate.Redrive(ctx, k, w.selection(), pace, o)
			if cli.Reported(err) {
				err = errors.Join(tellRedrive(out, w, &r, pace.Canary), err)
			}
			return err
		})
	}
	return c
}

// run returns the name of the run, made from the selection and the reason. So the same command continues an
// interrupted run.
func (w *wanted) run() string {
	key := "any"
	if w.key != nil {
		key = hex.EncodeToString(w.key)
	}
	b, err := json.Marshal([]string{w.consumer, w.source, w.id, key, w.fingerprint, w.topic, w.typ, w.kind,
		w.since, w.until, w.Reason})
	if err != nil { // impossible: all values are texts
		return "redrive"
	}
	sum := sha256.Sum256(b)
	return "redrive-" + hex.EncodeToString(sum[:6])
}

func tellRedrive(out io.Writer, w *wanted, r *operate.RedriveReport, canary bool) error {
	switch {
	case w.Dry:
		return tellPlan(out, w, r, canary)
	case r.Run == "":
		if err := tellBulk(out, w, "redrive", r.Report); err != nil || w.JSON {
			return err
		}
		_, err := fmt.Fprintln(out, "outcomes: skald dead redrives")
		return err
	case w.JSON:
		return cli.JSON(out).Encode(map[string]any{"what": "redrive", "meant": r.Selected,
			"done": r.Done, "dry_run": false, "run": r.Run,
			"succeeded": r.Succeeded, "rejected": r.Rejected, "failed": r.Failed, "open": r.Open,
			"rejections": r.Rejections, "stopped": r.Stopped})
	}
	before := ""
	if !r.Begun.IsZero() {
		before = ", in a run that began at " + cli.Time(r.Begun)
	}
	_, err := fmt.Fprintf(out, "redrive: %d of %d messages done%s: %s\n", r.Done, r.Selected, before,
		r.Outcome())
	return err
}

// tellPlan prints the result of a dry run.
func tellPlan(out io.Writer, w *wanted, r *operate.RedriveReport, canary bool) error {
	firsts, groups := map[string]bool{}, map[string]bool{}
	behind := 0
	for _, p := range r.Planned {
		key := p.Consumer + "\x00" + string(p.Message.Key)
		if p.Message.Key == nil {
			key = p.Consumer + "\x00\x00" + p.Source + "\x00" + p.ID
		}
		if p.Waiting && !firsts[key] {
			behind++
		}
		firsts[key] = true
		groups[p.Consumer+" "+p.Dead.Fingerprint] = true
	}
	if w.JSON {
		return cli.JSON(out).Encode(map[string]any{"what": "redrive", "meant": r.Selected,
			"done": r.Done, "dry_run": true,
			"keys": len(firsts), "groups": len(groups), "behind": behind, "rejections": r.Rejections})
	}
	table := cli.Table(out)
	for i, p := range r.Planned {
		how := ""
		switch {
		case i == 0 && canary:
			how = "first, alone"
		case p.Waiting:
			how = "behind earlier messages of its key"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", p.Consumer, cli.Line(p.ID), cli.Line(p.Message.Type),
			connect.KeyText(p.Message.Key), operate.State(&p), how)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out,
		"redrive: %d of %d messages would be done, of %d keys and %d groups; %d keys wait for another dead letter or a parked message; %d rejections are left out\n",
		r.Done, r.Selected, len(firsts), len(groups), behind, r.Rejections)
	return err
}
