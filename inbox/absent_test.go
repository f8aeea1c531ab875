package inbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
)

// A topic that does not exist does not stop the others: the consumer reads those, is not ready and names the
// topic. Once the topic exists, the consumer reads it, too.
func TestMissingTopicDoesNotStopTheOthers(t *testing.T) {
	w := newWorld(t, 1)
	in := w.stepper(keep)
	late := skald.Event[string]{Topic: "late", Type: "said"}
	inbox.On(in, late, keep)
	w.publish(w.message("a", "1"))
	w.quiet(in)
	w.expect("a", "1")
	if h := in.Health(); h.Ready || !strings.Contains(h.Why, "no such topic: late;") {
		t.Errorf("health %+v", h)
	}
	if err := w.bus.MakeTopics(t.Context(), 1, "late"); err != nil {
		t.Fatal(err)
	}
	m := w.message("b", "2")
	m.Topic = "late"
	w.publish(m, w.message("a", "3"))
	w.pass(10 * time.Second)
	w.quiet(in)
	w.expect("a", "1 3")
	w.expect("b", "2")
	if h := in.Health(); !h.Ready || h.Handled != 3 {
		t.Errorf("health %+v", h)
	}
}

// Run does the same while handlers run.
func TestMissingTopicUnderRun(t *testing.T) {
	w := newWorld(t, 4)
	in := w.inbox(&inbox.Options{Now: w.clock, Logger: slog.New(slog.DiscardHandler)}, keep)
	inbox.On(in, skald.Event[string]{Topic: "late", Type: "said"},
		func(ctx context.Context, tx tx, m skald.Received[string]) error { return keep(ctx, tx, m) })
	stop := run(t, in)
	for n := range 100 {
		w.publish(w.message(fmt.Sprint("k", n), "1"))
	}
	until(t, "the topic that exists is read", func() bool { return in.Health().Handled == 100 })
	if err := w.bus.MakeTopics(t.Context(), 1, "late"); err != nil {
		t.Fatal(err)
	}
	m := w.message("late", "1")
	m.Topic = "late"
	w.publish(m)
	until(t, "the other one is read", func() bool {
		w.pass(time.Second)
		return in.Health().Handled == 101 && in.Health().Ready
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// A topic that is deleted, while its consumer runs or is stopped, does not stop the others.
func TestDeletedTopicDoesNotStopTheOthers(t *testing.T) {
	for broker, on := range rewindable() {
		t.Run(broker, func(t *testing.T) {
			r := newRestart(t, on, "")
			stays, goes := r.name+".stays", r.name+".goes"
			r.make(stays, goes)
			r.publish(goes, 0, 10)
			r.publish(stays, 0, 10)
			stop := run(t, r.consumer(stays, goes))
			until(t, "both are read", func() bool { return r.effects() == 20 })
			fatal(t, r.drop(goes))
			r.publish(stays, 10, 60)
			until(t, "the other is read meanwhile", func() bool { return r.effects() == 70 })
			fatal(t, stop())

			in := r.consumer(stays, goes)
			stop = run(t, in)
			r.publish(stays, 60, 100)
			until(t, "the other is read after a restart", func() bool { return r.effects() == 110 })
			if h := in.Health(); h.Ready || !strings.Contains(h.Why, goes) {
				t.Errorf("health %+v", h)
			}
			fatal(t, stop())
		})
	}
}
