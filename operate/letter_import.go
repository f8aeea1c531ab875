package operate

import (
	"context"
	"fmt"
	"iter"

	"github.com/skald-go/skald/store"
)

// LeftLetter is a dead letter that Import did not import. The JSON field names are stable.
type LeftLetter struct {
	Why      string `json:"left"` // the reason: "finished", "kept already", "too old" or "at a call"
	Consumer string `json:"consumer"`
	Source   string `json:"source"`
	ID       string `json:"id"`
}

// Import stores letters as dead letters of their consumers, in order. It reads letters twice, so that it
// finds an unreadable letter before any change. It skips a letter if its consumer has finished the message
// or keeps it already, or if the letter has an external call. It also skips a letter that is older than the
// consumer's marks, unless tooOld is set. It calls onSkip for each letter that it skips. A second import of
// the same letters changes nothing.
func Import[TTx any](ctx context.Context, db store.Driver[TTx], letters iter.Seq2[*store.Parked, error],
	tooOld bool, onSkip func(LeftLetter) error, o Order) (r Report, err error) {
	if err := checkOrder(&o); err != nil {
		return r, err
	}
	for _, err := range letters {
		if err != nil {
			return r, err
		}
		r.Selected++
	}
	if r.Selected == 0 {
		return r, &NoMatchError{Reason: "there is no dead letter in the file"}
	}
	if err := confirm(ctx, &o, r.Selected); err != nil {
		return r, err
	}
	n := 0
	for p, err := range letters {
		if err != nil {
			return r, err
		}
		why := "at a call"
		if p.Call == nil {
			outcome, err := importOne(ctx, db, p, tooOld, &o)
			if err != nil {
				return r, fmt.Errorf("import %s, after %d others: %w", p.ID, r.Done, err)
			}
			why = whyLeft(outcome)
		}
		if why == "" {
			r.Done++
		} else if err := onSkip(LeftLetter{why, p.Consumer, p.Source, p.ID}); err != nil {
			return r, err
		}
		n++
		progress(&o, n, r.Selected)
	}
	return r, nil
}

// importOne stores a message if its consumer has neither finished nor kept it: then it returns store.Fresh.
// It waits for a transaction that is handling the message.
func importOne[TTx any](ctx context.Context, db store.Driver[TTx], p *store.Parked, tooOld bool,
	o *Order) (store.Outcome, error) {
	m := store.Mark{Consumer: p.Consumer, Identity: p.Identity, Outcome: store.Rejected,
		KeyOrder: store.Arriving,
		Key:      p.Message.Key, Held: tooOld}
	unit, err := db.Begin(ctx, store.Intake{Marks: []store.Mark{m}})
	if err != nil {
		return 0, err
	}
	outcome := unit.Found().Marks[0].Outcome
	if outcome == store.Behind { // a message of the same key is kept: the letter may be stored behind it
		outcome = store.Fresh
	}
	if outcome != store.Fresh || o.DryRun {
		_, _ = unit.Rollback(ctx) // an error is harmless: nothing was written
		return outcome, nil
	}
	applied, err := unit.Rollback(ctx, store.Effect{Park: &store.Park{Parked: *p},
		Audit: auditOf(o, "import", p.Consumer, p.Identity)})
	if err == nil && !applied[0] {
		outcome = store.Done // another process finished or stored the message meanwhile
	}
	return outcome, err
}

func whyLeft(outcome store.Outcome) string {
	switch outcome {
	case store.Fresh:
		return ""
	case store.Waiting, store.Dead:
		return "kept already"
	case store.TooOld:
		return "too old"
	}
	return "finished"
}
