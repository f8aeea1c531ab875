package inbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// Without a relay, a consumer with Retention.Keep deletes its expired marks, and only those.
func TestMarksExpireWithoutARelay(t *testing.T) {
	w := newWorld(t, 1)
	mark := func() store.Identity {
		m := store.Mark{Consumer: "c", Identity: store.Identity{Source: "/other", ID: w.message("", "").ID},
			Outcome: store.Done}
		if _, err := w.db.Apply(t.Context(), store.Effect{Mark: &m}); err != nil {
			t.Fatal(err)
		}
		return m.Identity
	}
	old := mark()
	if _, err := w.db.Maintain(t.Context(), store.Maintain{}); err != nil { // registers the consumer
		t.Fatal(err)
	}
	w.pass(31 * 24 * time.Hour)
	young := mark()
	seen := func() []store.Verdict {
		got, err := w.db.Seen(t.Context(), "c", []store.Identity{old, young})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, keep := range []*store.Retention{nil, {}} {
		ctx, cancel := context.WithCancel(t.Context())
		in := inbox.New(w.db, w.bus, "c", &inbox.Options{Retention: inbox.Retention{Keep: keep},
			Now: w.clock})
		taken := make(chan struct{}, 1)
		inbox.On(in, said,
			func(context.Context, tx, skald.Received[string]) error { taken <- struct{}{}; return nil })
		ended := make(chan error, 1)
		go func() { ended <- in.Run(ctx) }()
		w.publish(w.message("a", "x"))
		<-taken
		for deadline := time.Now().Add(5 * time.Minute); keep != nil && seen()[0].Outcome != store.Fresh; {
			if time.Now().After(deadline) {
				t.Fatal("the old mark is not deleted")
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := seen(); (got[0].Outcome == store.Fresh) != (keep != nil) || got[1].Outcome != store.Done {
			t.Errorf("with %+v the marks are %v", keep, got)
		}
	}
	var refused *store.RetentionError
	err := inbox.New(w.db, w.bus, "c",
		&inbox.Options{Retention: inbox.Retention{Keep: &store.Retention{Marks: time.Hour}}}).Run(t.Context())
	if !errors.As(err, &refused) {
		t.Errorf("marks that expire before the rows: %v", err)
	}
}
