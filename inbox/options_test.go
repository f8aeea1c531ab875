package inbox_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

func never(context.Context, tx, skald.Received[string]) error { return nil }

// An invalid option is an error at the start, with its name.
func TestInvalidOptionsAreErrors(t *testing.T) {
	for want, o := range map[string]*inbox.Options{
		"Limits.Unacknowledged is below zero": {Limits: inbox.Limits{Unacknowledged: -1}},
		"Limits.Record is below zero":         {Limits: inbox.Limits{Record: -1}},
		"Workers is below zero":               {Workers: -1},
		"Batch is below zero":                 {Batch: -1},
		"Retry.Attempts is below zero":        {Retry: inbox.Retry{Attempts: -1}},
		"Timeouts.Handle is below zero":       {Timeouts: inbox.Timeouts{Handle: -1}},
		"Retry.InitialInterval is below zero": {Retry: inbox.Retry{InitialInterval: -1}},
		"set Dead.Rejections, too":            {Dead: inbox.Dead{RejectionsHold: true}},
		"Dead.Topic is \"bad topic!\"":        {Dead: inbox.Dead{Topic: "bad topic!"}},
	} {
		w := newWorld(t, 1)
		in := w.inbox(o, never)
		if err := in.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run: %v, want %s", err, want)
		}
		if _, err := in.Step(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Step: %v, want %s", err, want)
		}
	}
}

// A name with a control character could look like another one in logs and lists: it is refused.
func TestNameOfAConsumerIsPrintable(t *testing.T) {
	w := newWorld(t, 1)
	for _, name := range []string{"a\nb", "a\x1bb", "a\u202eb", "a\xff"} {
		in := inbox.New(w.db, w.bus, name, nil)
		inbox.On(in, said, never)
		if err := in.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "control character") {
			t.Errorf("Run of %q: %v", name, err)
		}
		_, err := inbox.Import(t.Context(), w.db, name, "ann", "moved", maps.All(map[inbox.Finished]error{}))
		if err == nil || !strings.Contains(err.Error(), "control character") {
			t.Errorf("Import for %q: %v", name, err)
		}
	}
}

// Messages about an entity without a name would all wait for each other: each fails with an error.
func TestEntityWithoutName(t *testing.T) {
	w := newWorld(t, 1)
	in := w.inbox(&inbox.Options{Now: w.clock,
		Transaction: inbox.Transaction{Entities: func(m skald.Message) []store.Lock {
			return []store.Lock{{Space: "order", Key: string(m.Key)}}
		}}}, never)
	w.publish(w.message("", "1"), w.message("k", "2"))
	w.quiet(in)
	h := in.Health()
	if h.Handled != 1 || len(h.Stuck) != 1 || !strings.Contains(h.Stuck[0].Error, "without Space or Key") {
		t.Errorf("%+v", h)
	}
}
