package operate

import (
	"context"
	"slices"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// A Redriven is one redrive of one message: its names in JSON are stable.
type Redriven struct {
	Number   int64     `json:"number"` // in skald_audit
	At       time.Time `json:"at"`
	Who      string    `json:"who"`
	Reason   string    `json:"reason"`
	Run      string    `json:"run,omitempty"` // of a redrive that was watched
	Consumer string    `json:"consumer"`
	Source   string    `json:"source"`
	ID       string    `json:"id"`
	Outcome  string    `json:"outcome"` // one of RedriveOutcomes
	Why      string    `json:"why,omitempty"`
}

func (o *Redriven) target() runTarget {
	return runTarget{Consumer: o.Consumer, Identity: store.Identity{Source: o.Source, ID: o.ID}}
}

// RedriveOutcomes are the words for what became of a message that was redriven.
func RedriveOutcomes() []string {
	return []string{"done", "rejected", "barred", "dead", "failed", "calling", "waiting", "dropped", "edited",
		"again", "finished"}
}

// A RedriveQuery chooses among redrives. Zero fields choose all.
type RedriveQuery struct {
	Consumer, Source, ID string
	From, To             time.Time // when it was redriven
	Limit                int       // at most so many, the last ones; 0: all
}

func (q *RedriveQuery) means(a *store.Audit) bool {
	is := func(want, told string) bool { return want == "" || column.Names(told, want) }
	return a.Action == "redrive" && is(q.Consumer, a.Consumer) && is(q.Source, a.Source) && is(q.ID, a.ID) &&
		!a.At.Before(q.From) && (q.To.IsZero() || a.At.Before(q.To))
}

// A Historian is what Redrives asks of a store.
type Historian interface {
	Keeper
	RunReader
}

// Redrives tells of each redrive when, by whom and why it was, and what has become of the message by now. It
// reads what operators did (skald_audit) from the last on. more: there may be earlier ones that the limit
// left out.
func Redrives(ctx context.Context, db Historian, q RedriveQuery) (all []Redriven, more bool, err error) {
	h := &history{q: &q, next: map[runTarget]*store.Audit{}}
	if err := h.read(ctx, db); err != nil {
		return nil, false, err
	}
	return h.all, h.more, nil
}

// A history is what operators redrove.
type history struct {
	q    *RedriveQuery
	all  []Redriven
	next map[runTarget]*store.Audit // what was done to each message next
	more bool
}

// late is how much later than others with a smaller number something may have been done by its time: its
// transaction was open for so long.
const late = time.Hour

// read goes through what operators did, from the last on, and looks up what nothing was done about since.
func (h *history) read(ctx context.Context, db Historian) error {
	for before, end := int64(0), false; !end; {
		list, err := db.Audits(ctx, store.AuditQuery{Before: before, Limit: actsPage})
		if err != nil {
			return err
		}
		end = len(list) < actsPage
		for i := range list {
			before = list[i].Number
			if h.more = h.full() && h.q.means(&list[i]); h.more || list[i].At.Before(h.q.From.Add(-late)) {
				end = true
				break
			}
			h.add(&list[i])
		}
		if h.full() && !end {
			h.more, end = true, true
		}
	}
	slices.Reverse(h.all)
	var unknown []*Redriven
	for i := range h.all {
		if h.all[i].Outcome == "" {
			unknown = append(unknown, &h.all[i])
		}
	}
	for part := range slices.Chunk(unknown, 500) {
		if err := look(ctx, db, part); err != nil {
			return err
		}
	}
	return nil
}

func (h *history) full() bool { return h.q.Limit > 0 && len(h.all) >= h.q.Limit }

// add takes a note of what was done to a message, before what it knows of.
func (h *history) add(a *store.Audit) {
	of := runTarget{Consumer: a.Consumer, Identity: a.Identity}
	switch a.Action {
	case "redrive":
		if h.q.means(a) {
			o := Redriven{a.Number, a.At, a.Author, a.Reason, a.Run, a.Consumer, a.Source, a.ID, "", ""}
			o.Outcome, o.Why = overtaken(h.next[of])
			h.all = append(h.all, o)
		}
	case "drop", "edit":
	default:
		return
	}
	h.next[of] = a
}

// overtaken is what has become of a redrive by what was done to its message next; nil: nothing was.
func overtaken(next *store.Audit) (outcome, why string) {
	switch {
	case next == nil:
		return "", ""
	case next.Action == "redrive":
		return "again", ""
	case next.Action == "drop":
		return "dropped", next.Reason + " (" + next.Author + ")"
	}
	return "edited", next.Reason + " (" + next.Author + ")"
}

// look says how messages stand: as they are kept, or as their marks have it.
func look(ctx context.Context, db Historian, part []*Redriven) error {
	gone := map[string][]*Redriven{} // by consumer
	for _, o := range part {
		p, err := find(ctx, db, o.Consumer, o.target().Identity)
		switch {
		case err != nil:
			return err
		case p == nil:
			gone[o.Consumer] = append(gone[o.Consumer], o)
		default:
			o.Outcome, o.Why = keptOutcome(p)
		}
	}
	for consumer, list := range gone {
		ids := make([]store.Identity, len(list))
		for i, o := range list {
			ids[i] = o.target().Identity
		}
		seen, err := db.Seen(ctx, consumer, ids)
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
	why = firstLine(p.Last.Why)
	switch {
	case p.Dead != nil && p.Dead.Kind == failure.KindRejected:
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
