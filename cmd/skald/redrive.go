package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/store"
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
	w := &wanted{dead: true}
	r := &redrive{act: act{w: w, out: out, errs: errs, verb: "redrive", effect: release}}
	c := &cobra.Command{Use: "redrive", Short: "Have dead letters taken again by the consumer that failed", Long: redriveAbout, Args: cobra.NoArgs}
	w.bulkFlags(c)
	f := c.Flags()
	f.BoolVar(&r.canary, "canary", false, "one first; the others if it succeeds")
	f.Float64Var(&r.rate, "rate", 0, "so many a second (default: all at once)")
	f.Float64Var(&r.ratio, "max-error-ratio", 0.1, "stop when more than this share of those redriven failed again; of fewer than ten, of ten")
	f.DurationVar(&r.wait, "wait", time.Minute, "with --canary and --rate: how long to wait for what becomes of the last ones, and of the canary")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if r.rate < 0 || r.ratio < 0 || r.ratio > 1 || r.wait <= 0 {
			return &place.UsageError{What: "--rate and --wait are positive, --max-error-ratio is from 0 to 1"}
		}
		r.watched = r.canary || r.rate > 0 || f.Changed("max-error-ratio")
		return r.command(c)
	}
	return c
}

// A redrive is one run, perhaps over several calls of the command.
type redrive struct {
	act
	canary, watched bool
	rate, ratio     float64
	wait            time.Duration

	k       keeper
	id      string // of the run; "" if it is not watched
	sent    []*redriven
	known   map[whose]*redriven
	begun   time.Time // an earlier call began it; zero: none did
	looked  time.Time // when it was last looked what became of them
	stopped string
}

type whose struct {
	consumer string
	store.Identity
}

// A redriven is a message of the run and what has become of it.
type redriven struct {
	whose
	fate fate
	why  string // it failed
}

type fate int

const (
	open   fate = iota // not taken yet
	done               // its effect is committed
	no                 // its handler rejected it
	failed             // it failed again
)

func (r *redrive) command(c *cobra.Command) error {
	if err := r.bulk(); err != nil {
		return err
	}
	k, end, err := r.w.open(c)
	if err != nil {
		return err
	}
	defer end()
	r.k, r.known = k, map[whose]*redriven{}
	if r.watched && !r.w.dry {
		r.id = r.w.run()
		if err := r.resume(c.Context()); err != nil {
			return fmt.Errorf("redrive: look at what was redriven before: %w", err)
		}
	}
	todo, left, err := r.todo(c.Context())
	switch {
	case err != nil:
		return err
	case r.w.dry:
		return r.tellDry(todo, left)
	case len(todo) == 0 && len(r.sent) == 0 && left > 0:
		return &place.NoneError{What: fmt.Sprintf("nothing is redriven: %d rejections are meant, of which others have been told: see skald dead edit and skald dead drop", left)}
	}
	if len(todo) > 0 {
		if err := r.ready(c.Context(), len(todo)); err != nil {
			return err
		}
	}
	return r.run(c.Context(), todo, left)
}

// todo is what is to be redriven yet, and how many rejections are left.
func (r *redrive) todo(ctx context.Context) (todo []store.Parked, left int, err error) {
	all, err := r.meant(ctx, r.k)
	if none := new(place.NoneError); errors.As(err, &none) && len(r.sent) > 0 {
		err = nil // the run was ended when all were redriven, before it was told
	}
	for _, p := range all {
		switch {
		case p.Dead.Kind == kindRejected:
			left++
		case r.known[whose{p.Consumer, p.Identity}] == nil: // else it is one of this run, and dead again
			todo = append(todo, p)
		}
	}
	return todo, left, err
}

func (r *redrive) run(ctx context.Context, todo []store.Parked, left int) error {
	meant := len(todo) + len(r.sent)
	err := r.send(ctx, todo)
	if err == nil && r.watched && r.stopped == "" {
		err = r.settle(ctx)
	}
	if err != nil {
		return fmt.Errorf("redrive, behind %d of %d messages; the same command goes on: %w", len(r.sent), meant, err)
	}
	if r.watched {
		if err := r.note(ctx); err != nil {
			return fmt.Errorf("redrive: note what came of it: %w", err)
		}
	}
	if err := r.tell(meant, left); err != nil {
		return err
	}
	if r.stopped != "" {
		return &place.FailedError{Err: errors.New("redrive: stopped: " + r.stopped)}
	}
	return partly(r.verb, len(r.sent), meant)
}

// send redrives todo, in order: the canary alone, the others at the rate, as long as few of them fail.
func (r *redrive) send(ctx context.Context, todo []store.Parked) error {
	if r.canary && len(r.sent) == 0 && len(todo) > 0 {
		if err := r.sendOne(ctx, &todo[0]); err != nil {
			return err
		}
		todo = todo[1:]
	}
	if r.canary && len(r.sent) > 0 {
		if err := r.firstSucceeds(ctx); err != nil || r.stopped != "" {
			return err
		}
	}
	pace := newPace(r.rate)
	defer pace.stop()
	for i := range todo {
		if err := pace.next(ctx); err != nil {
			return err
		}
		if r.watched && time.Since(r.looked) >= time.Second {
			if err := r.look(ctx); err != nil {
				return err
			}
		}
		if r.watched && r.tooMany() {
			return nil
		}
		if err := r.sendOne(ctx, &todo[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *redrive) sendOne(ctx context.Context, p *store.Parked) error {
	stands, err := r.change(ctx, r.k, p, r.id)
	if err != nil {
		return err
	}
	if stands {
		r.add(whose{p.Consumer, p.Identity})
	}
	return nil
}

func (r *redrive) add(w whose) {
	if r.known[w] == nil {
		r.known[w] = &redriven{whose: w}
		r.sent = append(r.sent, r.known[w])
	}
}

// firstSucceeds waits for what becomes of the canary.
func (r *redrive) firstSucceeds(ctx context.Context) error {
	canary := r.sent[0]
	err := r.until(ctx, func() bool { return canary.fate != open })
	switch {
	case err != nil:
		return err
	case canary.fate == open:
		return fmt.Errorf("the first one, %s, was not taken within %v: does its consumer run, and does a message of its key hold it?", canary.ID, r.wait)
	case canary.fate == failed:
		r.stopped = fmt.Sprintf("the first one, %s, failed again: %s", canary.ID, canary.why)
	}
	return nil
}

// settle waits for what becomes of the last ones.
func (r *redrive) settle(ctx context.Context) error {
	return r.until(ctx, func() bool { return r.tooMany() || r.count(open) == 0 })
}

// until looks until ok, for as long as it is to wait at most.
func (r *redrive) until(ctx context.Context, ok func() bool) error {
	end := time.Now().Add(r.wait)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if err := r.look(ctx); err != nil || ok() || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (r *redrive) count(f fate) (n int) {
	for _, s := range r.sent {
		if s.fate == f {
			n++
		}
	}
	return n
}

// tooMany failed again: it is the end of the run.
func (r *redrive) tooMany() bool {
	if n := r.count(failed); float64(n) > r.ratio*float64(max(10, len(r.sent))) {
		i := slices.IndexFunc(r.sent, func(s *redriven) bool { return s.fate == failed })
		r.stopped = fmt.Sprintf("%d of %d failed again: %s", n, len(r.sent), r.sent[i].why)
	}
	return r.stopped != ""
}

// A pace says when the next one goes.
type pace struct{ tick *time.Ticker }

func newPace(rate float64) pace {
	if rate <= 0 {
		return pace{}
	}
	return pace{time.NewTicker(max(time.Duration(float64(time.Second)/rate), time.Microsecond))}
}

func (p pace) stop() {
	if p.tick != nil {
		p.tick.Stop()
	}
}

func (p pace) next(ctx context.Context) error {
	if p.tick == nil {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.tick.C:
		return nil
	}
}

// tellDry says what would happen.
func (r *redrive) tellDry(todo []store.Parked, left int) error {
	firsts, groups := map[string]bool{}, map[string]int{}
	behind := 0
	for _, p := range todo {
		key := p.Consumer + "\x00" + string(p.Message.Key)
		if p.Message.Key == nil {
			key = p.Consumer + "\x00\x00" + p.Source + "\x00" + p.ID
		}
		if p.Waiting && !firsts[key] {
			behind++
		}
		firsts[key] = true
		groups[p.Consumer+" "+p.Dead.Fingerprint]++
	}
	if r.w.asJSON {
		return json.NewEncoder(r.out).Encode(map[string]any{"what": r.verb, "meant": len(todo) + left, "done": len(todo), "dry_run": true,
			"keys": len(firsts), "groups": len(groups), "behind": behind, "rejections": left})
	}
	table := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	for i, p := range todo {
		how := ""
		switch {
		case i == 0 && r.canary:
			how = "first, alone"
		case p.Waiting:
			how = "behind others of its key"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", p.Consumer, p.ID, p.Message.Type, keyText(p.Message.Key), stateOf(&p), how)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(r.out, "redrive: %d of %d messages would be done, of %d keys and %d groups; %d keys wait for another dead letter or a parked message; %d rejections are left\n",
		len(todo), len(todo)+left, len(firsts), len(groups), behind, left)
	return err
}

func (r *redrive) tell(meant, left int) error {
	if !r.watched {
		if err := told(r.out, r.w, r.verb, len(r.sent), meant); err != nil || r.w.asJSON {
			return err
		}
		_, err := fmt.Fprintln(r.out, "what becomes of them: skald dead redrives")
		return err
	}
	if r.w.asJSON {
		return json.NewEncoder(r.out).Encode(map[string]any{"what": r.verb, "meant": meant, "done": len(r.sent), "dry_run": false, "run": r.id,
			"succeeded": r.count(done), "rejected": r.count(no), "failed": r.count(failed), "open": r.count(open), "rejections": left, "stopped": r.stopped})
	}
	before := ""
	if !r.begun.IsZero() {
		before = ", in a run that began at " + r.begun.Format(time.RFC3339)
	}
	_, err := fmt.Fprintf(r.out, "redrive: %d of %d messages done%s: %s\n", len(r.sent), meant, before, r.outcome())
	return err
}

func (r *redrive) outcome() string {
	return strings.TrimSuffix(fmt.Sprintf("%d redriven, %d succeeded, %d rejected, %d failed again, %d not taken yet; %s", len(r.sent), r.count(done),
		r.count(no), r.count(failed), r.count(open), r.stopped), "; ")
}
