package operate

import (
	"context"
	"slices"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// Redriven is one redrive of one message. The JSON field names are stable.
type Redriven struct {
	Number   int64     `json:"number"` // in skald_audit
	At       time.Time `json:"at"`
	Who      string    `json:"who"`
	Reason   string    `json:"reason"`
	Run      string    `json:"run,omitempty"` // of a watched redrive
	Consumer string    `json:"consumer"`
	Source   string    `json:"source"`
	ID       string    `json:"id"`
	Outcome  string    `json:"outcome"` // one of RedriveOutcomes
	Why      string    `json:"why,omitempty"`
}

func (o *Redriven) target() runTarget {
	return runTarget{Consumer: o.Consumer, Identity: store.Identity{Source: o.Source, ID: o.ID}}
}

// RedriveOutcomes returns the words for the outcome of a redriven message.
func RedriveOutcomes() []string {
	return []string{"done", "rejected", "barred", "dead", "failed", "calling", "waiting", "dropped", "edited",
		"again", "finished"}
}

// RedriveQuery selects redrives. Zero fields select all.
type RedriveQuery struct {
	Consumer, Source, ID string
	From, To             time.Time // limit the time of the redrive
	Limit                int       // the maximum number, the last ones first; 0 means all
}

func (q *RedriveQuery) matches(a *store.Audit) bool {
	is := func(want, have string) bool { return want == "" || column.Names(have, want) }
	return a.Action == "redrive" && is(q.Consumer, a.Consumer) && is(q.Source, a.Source) && is(q.ID, a.ID) &&
		!a.At.Before(q.From) && (q.To.IsZero() || a.At.Before(q.To))
}

// HistoryStore is the part of a store that Redrives needs.
type HistoryStore interface {
	MessageStore
	RunReader
}

// Redrives returns the time, author and reason of each selected redrive, and the present state of its
// message. The newest redrive comes last. The result more reports whether q.Limit may have left out earlier
// redrives.
func Redrives(ctx context.Context, db HistoryStore, q RedriveQuery) (all []Redriven, more bool, err error) {
	h := &history{q: &q, next: map[runTarget]*store.Audit{}}
	if err := h.read(ctx, db); err != nil {
		return nil, false, err
	}
	return h.all, h.more, nil
}

// history is one call of Redrives.
type history struct {
	q    *RedriveQuery
	all  []Redriven
	next map[runTarget]*store.Audit // the earliest change of each message that was read so far
	more bool
}

// maxAuditDelay limits the difference between the order of the times and the order of the numbers in the
// audit: a transaction may take its time so long before its number.
const maxAuditDelay = time.Hour

// read reads the audit from the newest number to the oldest. It finds the outcome of each redrive.
func (h *history) read(ctx context.Context, db HistoryStore) error {
	for before, end := int64(0), false; !end; {
		list, err := db.Audits(ctx, store.AuditQuery{Before: before, Limit: auditPage})
		if err != nil {
			return err
		}
		end = len(list) < auditPage
		for i := range list {
			before = list[i].Number
			h.more = h.full() && h.q.matches(&list[i])
			if h.more || list[i].At.Before(h.q.From.Add(-maxAuditDelay)) {
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
		if err := readOutcomes(ctx, db, part); err != nil {
			return err
		}
	}
	return nil
}

func (h *history) full() bool { return h.q.Limit > 0 && len(h.all) >= h.q.Limit }

// add records a change of a message. It gets the newest change first, so next already has the change that
// came after this one.
func (h *history) add(a *store.Audit) {
	of := runTarget{Consumer: a.Consumer, Identity: a.Identity}
	switch a.Action {
	case "redrive":
		if h.q.matches(a) {
			o := Redriven{a.Number, a.At, a.Author, a.Reason, a.Run, a.Consumer, a.Source, a.ID, "", ""}
			o.Outcome, o.Why = supersededBy(h.next[of])
			h.all = append(h.all, o)
		}
	case "drop", "edit":
	default:
		return
	}
	h.next[of] = a
}

// supersededBy returns the outcome of a redrive if the audit later records another change of the same
// message. The outcome is "" if later is nil.
func supersededBy(later *store.Audit) (outcome, why string) {
	switch {
	case later == nil:
		return "", ""
	case later.Action == "redrive":
		return "again", ""
	case later.Action == "drop":
		return "dropped", later.Reason + " (" + later.Author + ")"
	}
	return "edited", later.Reason + " (" + later.Author + ")"
}

// readOutcomes sets the outcome of each redrive: that of its message if the message is kept, or else that of
// the mark.
func readOutcomes(ctx context.Context, db HistoryStore, part []*Redriven) error {
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
			if v.Outcome == store.Fresh { // the message is finished, and its mark is deleted
				list[i].Outcome = "finished"
			}
		}
	}
	return nil
}

// keptOutcome returns the outcome of the redrive of a message that is still parked, or dead again.
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
