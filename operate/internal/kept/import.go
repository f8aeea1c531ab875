package kept

import (
	"context"
	"fmt"
	"iter"

	"github.com/skald-go/skald/operate/internal/order"
	"github.com/skald-go/skald/store"
)

// A Left is a dead letter that was not imported: its names in JSON are stable.
type Left struct {
	Why      string `json:"left"` // "finished", "kept already", "too old", "at a call"
	Consumer string `json:"consumer"`
	Source   string `json:"source"`
	ID       string `json:"id"`
}

// Import keeps letters as dead letters of their consumers: see operate.Import.
func Import[TTx any](ctx context.Context, db store.Driver[TTx], letters iter.Seq2[*store.Parked, error],
	tooOld bool, left func(Left) error, o order.Order) (r order.Report, err error) {
	if err := order.Check(&o); err != nil {
		return r, err
	}
	for _, err := range letters {
		if err != nil {
			return r, err
		}
		r.Selected++
	}
	if r.Selected == 0 {
		return r, &order.NoneError{What: "there is no dead letter in the file"}
	}
	if err := order.Confirm(ctx, &o, r.Selected); err != nil {
		return r, err
	}
	n := 0
	for p, err := range letters {
		if err != nil {
			return r, err
		}
		why := "at a call"
		if p.Call == nil {
			stands, err := importOne(ctx, db, p, tooOld, &o)
			if err != nil {
				return r, fmt.Errorf("import %s, after %d others: %w", p.ID, r.Done, err)
			}
			why = whyLeft(stands)
		}
		if why == "" {
			r.Done++
		} else if err := left(Left{why, p.Consumer, p.Source, p.ID}); err != nil {
			return r, err
		}
		n++
		order.Progress(&o, n, r.Selected)
	}
	return r, nil
}

// importOne asks how a message stands as its consumer would, and keeps it if it is fresh. It waits for a
// transaction that has it in hand.
func importOne[TTx any](ctx context.Context, db store.Driver[TTx], p *store.Parked, tooOld bool,
	o *order.Order) (store.Outcome, error) {
	m := store.Mark{Consumer: p.Consumer, Identity: p.Identity, As: store.Rejected, KeyOrder: store.Arriving,
		Key: p.Message.Key, Held: tooOld}
	unit, err := db.Begin(ctx, store.Intake{Marks: []store.Mark{m}})
	if err != nil {
		return 0, err
	}
	stands := unit.Found().Marks[0].Outcome
	if stands == store.Behind {
		stands = store.Fresh // after those of its key
	}
	if stands != store.Fresh || o.DryRun {
		_, _ = unit.Rollback(ctx) // nothing was written: a lost connection changes nothing
		return stands, nil
	}
	stood, err := unit.Rollback(ctx, store.Effect{Park: &store.Park{Parked: *p},
		Audit: order.Audit(o, "import", p.Consumer, p.Identity)})
	if err == nil && !stood[0] {
		stands = store.Done // finished, or kept by a rival, in between
	}
	return stands, err
}

func whyLeft(stands store.Outcome) string {
	switch stands {
	case store.Fresh:
		return ""
	case store.Waiting, store.Dead:
		return "kept already"
	case store.TooOld:
		return "too old"
	}
	return "finished"
}
