package inbox_test

import (
	"context"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

func never(context.Context, tx, skald.Received[string]) error { return nil }

// An option that nobody can mean is an error at the start that names it.
func TestOptionsThatNobodyCanMean(t *testing.T) {
	for want, o := range map[string]*inbox.Options{
		"Limits.Held is below zero":     {Limits: inbox.Limits{Held: -1}},
		"Limits.Record is below zero":   {Limits: inbox.Limits{Record: -1}},
		"Timeouts.Handle is below zero": {Timeouts: inbox.Timeouts{Handle: -1}},
		"Retry.First is below zero":     {Retry: inbox.Retry{First: -1}},
		"set Dead.Rejections, too":      {Dead: inbox.Dead{RejectionsHold: true}},
		"Dead.Topic is \"bad topic!\"":  {Dead: inbox.Dead{Topic: "bad topic!"}},
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

// Messages that are about an entity without a name would all wait for each other: each fails, and says so.
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
