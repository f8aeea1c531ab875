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

	"github.com/skald-go/skald/store"
)

const redrivesAbout = `Says of each dead letter that was redriven when, by whom and why, and what has become of it by now:

  done       its effect is committed
  rejected   its handler said no, for the reason that is shown
  barred     its step was to be undone before it was taken
  dead       it failed again and is a dead letter again
  failed     it failed again and is tried again by itself
  calling    it is at a call to the outside
  waiting    it was not taken yet: does its consumer run, and does a message of its key hold it?
  dropped, edited   somebody did that since
  again      it was redriven once more since: see there
  finished   so long ago that it is forgotten how

It reads what operators did (skald_audit), the last first, until it has as many as --limit or is before --since; and how the messages stand
now: so it can be asked at any time, and in any way of redriving.`

func redrivesCommand(out io.Writer) *cobra.Command {
	w := &wanted{}
	c := &cobra.Command{Use: "redrives", Short: "What became of dead letters that were redriven", Long: redrivesAbout, Args: cobra.NoArgs}
	f := c.Flags()
	f.String("store", "", "sqlite:FILE or postgres://…; SKALD_STORE stands for it")
	f.StringVar(&w.schema, "schema", "", "where the tables are; PostgreSQL only (default: public)")
	f.StringVar(&w.consumer, "consumer", "", "only of this consumer group")
	f.StringVar(&w.source, "source", "", "with --id: only this message")
	f.StringVar(&w.id, "id", "", "only messages of this id")
	f.StringVar(&w.since, "since", "", "only those redriven since then: 2026-01-31T08:00:00Z, or 2h ago")
	f.StringVar(&w.until, "until", "", "only those redriven before; the same")
	f.IntVar(&w.limit, "limit", 100, "at most so many, the last ones; 0: all")
	f.BoolVar(&w.asJSON, "json", false, "print one object on each line and nothing else")
	c.RunE = func(c *cobra.Command, _ []string) error {
		k, end, err := w.open(c)
		if err != nil {
			return err
		}
		defer end()
		h := &history{w: w, since: map[whose]*store.Audit{}}
		if err := h.read(c.Context(), k); err != nil {
			return fmt.Errorf("dead redrives: %w", err)
		}
		return h.tell(out)
	}
	return c
}

// A once is one redrive of one message. What --json prints of it has stable names.
type once struct {
	Number   int64     `json:"number"` // in skald_audit
	At       time.Time `json:"at"`
	Who      string    `json:"who"`
	Reason   string    `json:"reason"`
	Run      string    `json:"run,omitempty"` // of a redrive that was watched
	Consumer string    `json:"consumer"`
	Source   string    `json:"source"`
	ID       string    `json:"id"`
	Outcome  string    `json:"outcome"`
	Why      string    `json:"why,omitempty"`
}

func (o *once) whose() whose { return whose{o.Consumer, store.Identity{Source: o.Source, ID: o.ID}} }

// A history is what operators redrove.
type history struct {
	w     *wanted
	all   []*once
	since map[whose]*store.Audit // what was done to each message next
	more  bool                   // there may be some before those that are shown
}

// late is how much later than others with a smaller number something may have been done by its time: its transaction was open for so long.
const late = time.Hour

// read goes through what operators did, from the last on, and looks up what nothing was done about since.
func (h *history) read(ctx context.Context, k keeper) error {
	for before, end := int64(0), false; !end; {
		page, err := k.AuditedLast(ctx, before, auditPage)
		if err != nil {
			return err
		}
		end = len(page) < auditPage
		for i := range page {
			before = page[i].Number
			if h.more = h.full() && h.w.redrove(&page[i]); h.more || page[i].At.Before(h.w.from.Add(-late)) {
				end = true
				break
			}
			h.add(&page[i])
		}
		if h.full() && !end {
			h.more, end = true, true
		}
	}
	slices.Reverse(h.all)
	var open []*once
	for _, o := range h.all {
		if o.Outcome == "" {
			open = append(open, o)
		}
	}
	for part := range slices.Chunk(open, 500) {
		if err := h.look(ctx, k, part); err != nil {
			return err
		}
	}
	return nil
}

func (h *history) full() bool { return h.w.limit > 0 && len(h.all) >= h.w.limit }

// add takes a note of what was done to a message, before what it knows of.
func (h *history) add(a *store.Audit) {
	of := whose{a.Consumer, a.Identity}
	switch a.What {
	case "redrive":
		if h.w.redrove(a) {
			o := &once{a.Number, a.At, a.Who, a.Why, a.Run, a.Consumer, a.Source, a.ID, "", ""}
			o.Outcome, o.Why = overtaken(h.since[of])
			h.all = append(h.all, o)
		}
	case "drop", "edit":
	default:
		return
	}
	h.since[of] = a
}

// overtaken is what has become of a redrive by what was done to its message next; nil: nothing was.
func overtaken(next *store.Audit) (outcome, why string) {
	switch {
	case next == nil:
		return "", ""
	case next.What == "redrive":
		return "again", ""
	case next.What == "drop":
		return "dropped", next.Why + " (" + next.Who + ")"
	}
	return "edited", next.Why + " (" + next.Who + ")"
}

// redrove tells whether a is a redrive, and the flags mean it.
func (w *wanted) redrove(a *store.Audit) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return a.What == "redrive" && is(w.consumer, a.Consumer) && is(w.source, a.Source) && is(w.id, a.ID) && !a.At.Before(w.from) && (w.to.IsZero() || a.At.Before(w.to))
}

// look says how messages stand: as they are kept, or as their marks have it.
func (h *history) look(ctx context.Context, k keeper, part []*once) error {
	gone := map[string][]*once{} // by consumer
	for _, o := range part {
		id := o.whose().Identity
		kept, err := k.Kept(ctx, store.Sought{Consumer: o.Consumer, Identity: &id, Bare: true}, 1)
		switch {
		case err != nil:
			return err
		case len(kept) == 0:
			gone[o.Consumer] = append(gone[o.Consumer], o)
		default:
			o.Outcome, o.Why = keptOutcome(&kept[0])
		}
	}
	for consumer, list := range gone {
		ids := make([]store.Identity, len(list))
		for i, o := range list {
			ids[i] = o.whose().Identity
		}
		seen, err := k.Seen(ctx, consumer, ids)
		if err != nil {
			return err
		}
		for i, v := range seen {
			list[i].Outcome, list[i].Why = v.Outcome.String(), v.Reason
			if v.Outcome == store.Fresh { // it went with a mark, which is not kept any more
				list[i].Outcome = "finished"
			}
		}
	}
	return nil
}

// keptOutcome is what has become of a message that was redriven, and is kept.
func keptOutcome(p *store.Parked) (outcome, why string) {
	why, _, _ = strings.Cut(p.Last.Why, "\n")
	switch {
	case p.Dead != nil && p.Dead.Kind == kindRejected:
		return store.Rejected.String(), why
	case p.Dead != nil:
		return store.Dead.String(), why
	case p.Attempts > 0:
		return "failed", why
	case p.Call != nil:
		return "calling", ""
	}
	return "waiting", ""
}

func (h *history) tell(out io.Writer) error {
	if h.w.asJSON {
		enc := json.NewEncoder(out)
		for _, o := range h.all {
			if err := enc.Encode(o); err != nil {
				return err
			}
		}
		return nil
	}
	table, counts := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), map[string]int{}
	for i, o := range h.all {
		if i == 0 {
			fmt.Fprintln(table, "redriven\tby\treason\tconsumer\tid\toutcome\twhy")
		}
		counts[o.Outcome]++
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", o.At.Format(time.RFC3339), o.Who, o.Reason, o.Consumer, o.ID, o.Outcome, o.Why)
	}
	err := table.Flush()
	var words []string
	for _, outcome := range outcomes() {
		if n := counts[outcome]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	before := ""
	if h.more {
		before = "; what was before is not shown: --limit 0"
	}
	_, wrote := fmt.Fprintf(out, "%d redriven: %s%s\n", len(h.all), strings.Join(words, ", "), before)
	return errors.Join(err, wrote)
}

// outcomes are the words for what became of a message that was redriven.
func outcomes() []string {
	return []string{"done", "rejected", "barred", "dead", "failed", "calling", "waiting", "dropped", "edited", "again", "finished"}
}
