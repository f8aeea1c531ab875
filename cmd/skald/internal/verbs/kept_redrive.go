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

const redriveAbout = `The message is parked again at its place, and the running consumer takes it within seconds: only the one that failed, under the
same id, one of a key at a time. Messages of its key that wait for it go on behind it. One that had freed its key goes behind those of its
key where one of them is at a call to the outside. If it fails again, it has all its
attempts before it. A rejection is left as it is: others have been told of it (skald dead edit, skald dead drop).

With --canary the first one goes alone, and the others only if it succeeds; with --rate so many go each second. Both watch what becomes of
them: if more than --max-error-ratio of those redriven failed again, no more are. Ended half way, the same command goes on where
it was, and redrives none twice. What it did and what came of it is in skald_audit. Exit code 8 if it stopped before the end.
Without them it waits for nothing: skald dead redrives says what became of each, at any time.`

func redriveCommand(out, errs io.Writer) *cobra.Command {
	w, pace := &wanted{dead: true}, operate.Pace{}
	c := &cobra.Command{Use: "redrive", Short: "Have dead letters taken again by the consumer that failed",
		Long: redriveAbout, Args: cobra.NoArgs}
	w.bulkFlags(c)
	f := c.Flags()
	f.BoolVar(&pace.Canary, "canary", false, "one first; the others if it succeeds")
	f.Float64Var(&pace.Rate, "rate", 0, "so many a second (default: all at once)")
	f.Float64Var(&pace.MaxErrors, "max-error-ratio", 0.1,
		"stop when more than this share of those redriven failed again; of fewer than ten, of ten")
	f.DurationVar(&pace.Wait, "wait", time.Minute,
		"with --canary and --rate: how long to wait for what becomes of the last ones, and of the canary")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if pace.Rate < 0 || pace.MaxErrors < 0 || pace.MaxErrors > 1 || pace.Wait <= 0 {
			return &cli.UsageError{What: "--rate and --wait are positive, --max-error-ratio is from 0 to 1"}
		}
		if pace.Canary || pace.Rate > 0 || f.Changed("max-error-ratio") {
			pace.Run = w.run()
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

// run names the redrive of these messages for this reason: the same command again is the same run, until it
// has ended.
func (w *wanted) run() string {
	key := "any"
	if w.key != nil {
		key = hex.EncodeToString(w.key)
	}
	b, err := json.Marshal([]string{w.consumer, w.source, w.id, key, w.fingerprint, w.topic, w.typ, w.kind,
		w.since, w.until, w.Reason})
	if err != nil { // texts can be written
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
		_, err := fmt.Fprintln(out, "what becomes of them: skald dead redrives")
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

// tellPlan says what would happen.
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
			how = "behind others of its key"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", p.Consumer, cli.Line(p.ID), cli.Line(p.Message.Type),
			connect.KeyText(p.Message.Key), operate.State(&p), how)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out,
		"redrive: %d of %d messages would be done, of %d keys and %d groups; %d keys wait for another dead letter or a parked message; %d rejections are left\n",
		r.Done, r.Selected, len(firsts), len(groups), behind, r.Rejections)
	return err
}
