package operate

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// QuarantineStore is the part of a store that QuarantineGroups and Admit need.
type QuarantineStore interface {
	Applier
	store.Lister
}

// QuarantineGroup counts the messages of one consumer that are in quarantine for one reason. The JSON field
// names are stable.
type QuarantineGroup struct {
	Consumer string    `json:"consumer"`
	Why      string    `json:"why"`
	Waiting  int       `json:"waiting"`
	Admitted int       `json:"admitted"` // messages that are admitted but not handled yet
	Oldest   time.Time `json:"oldest"`
	First    int64     `json:"first_number"`
}

// QuarantineGroups counts the messages in quarantine by consumer and reason.
func QuarantineGroups(ctx context.Context, db QuarantineStore) ([]QuarantineGroup, error) {
	groups := []QuarantineGroup{}
	for q, err := range quarantined(ctx, db, store.QuarantineQuery{Bare: true}) {
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(groups,
			func(g QuarantineGroup) bool { return g.Consumer == q.Consumer && g.Why == q.Why.String() })
		if i < 0 {
			i = len(groups)
			groups = append(groups, QuarantineGroup{Consumer: q.Consumer, Why: q.Why.String(), Oldest: q.At,
				First: q.Number})
		}
		if q.Admitted.IsZero() {
			groups[i].Waiting++
		} else {
			groups[i].Admitted++
		}
	}
	return groups, nil
}

// quarantined reads the quarantine page by page.
func quarantined(ctx context.Context, db QuarantineStore,
	q store.QuarantineQuery) iter.Seq2[store.Quarantined, error] {
	return func(yield func(store.Quarantined, error) bool) {
		for {
			list, err := store.ListQuarantined(ctx, db, q)
			if err != nil {
				yield(store.Quarantined{}, err)
				return
			}
			for _, one := range list {
				if !yield(one, nil) {
					return
				}
			}
			if len(list) == 0 {
				return
			}
			q.After = list[len(list)-1].Number
		}
	}
}

// AdmitBatch is the number of messages that one transaction admits.
const AdmitBatch = 1000

// Admission selects messages in quarantine. Zero fields select all.
type Admission struct {
	Number      int64 // of one message
	ID          string
	Consumer    string
	Topic, Type string
	Why         store.Outcome // TooOld or Conflict
	All         bool          // required if all other fields are zero
}

// AdmitReport lists the selected messages, and counts the admitted messages.
type AdmitReport struct {
	Report
	Chosen []store.Quarantined // without payloads
}

// Admit releases messages from quarantine: their consumers handle each message once, within some seconds.
// Check first that this is right. A message that is too old may have been handled before its mark was
// deleted. A message in conflict is handled in addition to the message with the same identity. The report is
// also valid if the error is a *PartialError.
func Admit(ctx context.Context, db QuarantineStore, a Admission, o Order) (r AdmitReport, err error) {
	if err := checkOrder(&o); err != nil {
		return r, err
	}
	if a == (Admission{}) {
		return r,
			&UsageError{Reason: "which messages? Select some, or set All to select all"}
	}
	if r.Chosen, err = a.choose(ctx, db); err != nil {
		return r, err
	}
	r.Selected = len(r.Chosen)
	if o.DryRun {
		return r, nil
	}
	if r.Selected > 1 {
		if err := confirm(ctx, &o, r.Selected); err != nil {
			return r, err
		}
	}
	for part := range slices.Chunk(r.Chosen, AdmitBatch) {
		var es []store.Effect
		for _, q := range part {
			es = append(es, store.Effect{Admit: &store.Admit{Number: q.Number, By: o.Author,
				Reason: o.Reason},
				Audit: &store.Audit{Author: o.Author, Reason: o.Reason, Action: "admit", Consumer: q.Consumer,
					Identity: q.Identity}})
		}
		applied, err := db.Apply(ctx, es...)
		if err != nil {
			return r, fmt.Errorf("%d are admitted: %w", r.Done, err)
		}
		for _, ok := range applied {
			if ok {
				r.Done++
			}
		}
		progress(&o, r.Done, r.Selected)
	}
	return r, partly(&r.Report, "inbox admit")
}

// choose returns the selected messages that are not admitted yet. It returns a *NoMatchError if the
// quarantine has no selected message, admitted or not.
func (a *Admission) choose(ctx context.Context, db QuarantineStore) (chosen []store.Quarantined, err error) {
	there := false
	what := store.QuarantineQuery{Consumer: a.Consumer, ID: a.ID, Topic: a.Topic, Type: a.Type, Why: a.Why,
		After: max(a.Number-1, 0), Bare: true}
	for q, err := range quarantined(ctx, db, what) {
		if err != nil {
			return nil, err
		}
		if a.Number != 0 && a.Number != q.Number {
			break
		}
		if there = true; q.Admitted.IsZero() {
			chosen = append(chosen, q)
		}
	}
	if !there {
		return nil, &NoMatchError{Reason: "no message in quarantine is selected: see skald inbox status"}
	}
	return chosen, nil
}
