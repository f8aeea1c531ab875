package operate_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// Names and errors may hold the words by which a run notes how it stands.
func TestNotesHoldAnyWord(t *testing.T) {
	onEach(t, func(t *testing.T, db base) {
		r := operate.Run{ID: "r", Verb: "compensate", Author: "ann", Reason: "mended",
			Request: operate.RunRequest{Of: 2}}
		if err := operate.BeginRun(t.Context(), db, r); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"the wedding ended: refund", "it begun: stopped: x"} {
			do(t, db, store.Effect{Audit: &store.Audit{Author: "ann", Reason: "mended",
				Action: "compensate order " + key + ": taken", Run: "r",
				Identity: store.Identity{Source: "/o", ID: key}}})
		}
		if got, err := operate.ReadRun(t.Context(), db, "r"); err != nil || got.Done != 2 ||
			got.Ended+got.Stopped != "" {
			t.Errorf("%+v, %v", got, err)
		}
		const outcome = "1 of 2: the worker stopped: it has begun: again"
		if err := operate.EndRun(t.Context(), db, r, outcome); err != nil {
			t.Fatal(err)
		}
		if got, err := operate.ReadRun(t.Context(), db, "r"); err != nil || got.Ended != outcome ||
			got.Stopped != "" {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// A canary that somebody else changed first tells nothing: the next one is sent alone, and the others wait
// for what becomes of that.
func TestCanaryThatIsLost(t *testing.T) {
	onEach(t, func(t *testing.T, db base) {
		keep(t, db, "permanent", "1", "2", "3", "4")
		r, err := operate.Redrive(t.Context(), firstLost{db}, operate.Selection{All: true},
			operate.Pace{Run: "r", Canary: true, Wait: 1}, byAnn())
		if err == nil || !strings.Contains(err.Error(), "the canary, 2, was not handled") {
			t.Errorf("%+v, %v", r, err)
		}
		if dead := kept(t, db, true); len(dead) != 2 {
			t.Errorf("dead letters: %v", dead)
		}
	})
}

// A firstLost loses the first message of a redrive to somebody else.
type firstLost struct{ base }

func (f firstLost) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	if e := es[0].Requeue; e != nil && e.ID == "1" {
		if _, err := f.base.Apply(ctx, store.Effect{Finish: &store.Finish{Consumer: e.Consumer,
			Identity: e.Identity}}); err != nil {
			return nil, err
		}
	}
	return f.base.Apply(ctx, es...)
}

// A canary that its handler rejects has not succeeded.
func TestCanaryThatIsRejected(t *testing.T) {
	onEach(t, func(t *testing.T, db base) {
		keep(t, db, "permanent", "1", "2", "3")
		var stopped *operate.StoppedError
		r, err := operate.Redrive(t.Context(), rejects{db}, operate.Selection{All: true},
			operate.Pace{Run: "r", Canary: true}, byAnn())
		if !errors.As(err, &stopped) || !strings.Contains(stopped.Why, "was rejected: sold out") ||
			r.Done != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		if dead := kept(t, db, true); len(dead) != 2 {
			t.Errorf("dead letters: %v", dead)
		}
	})
}

// A rejects has each message that is redriven rejected at once.
type rejects struct{ base }

func (f rejects) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	stood, err := f.base.Apply(ctx, es...)
	if e := es[0].Requeue; err == nil && e != nil {
		_, err = f.base.Apply(ctx, store.Effect{Finish: &store.Finish{Consumer: e.Consumer,
			Identity: e.Identity},
			Mark: &store.Mark{Consumer: e.Consumer, Identity: e.Identity, Outcome: store.Rejected,
				Reason: "sold out", Held: true}})
	}
	return stood, err
}
