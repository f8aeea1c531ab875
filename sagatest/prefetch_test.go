package sagatest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
)

// ridden is a world with long chains of parked messages. An inbox reads the messages that directly follow a
// claimed one together with it, and handles them in its transaction. One message in the middle of a chain
// fails.
func ridden() []string {
	return strings.Fields("a1! b1! a2 a3 b2 a4 a5 b3 a6 a7! a8 b4 a9 c1! c2 c3")
}

func buildRiding[TTx any](open opening[TTx],
	wrap func(store.Driver[TTx]) store.Driver[TTx]) func(*sagatest.World) error {
	return func(w *sagatest.World) error {
		on, err := open(w)
		if err != nil {
			return err
		}
		p := &parking[TTx]{w: w, on: on, wrap: wrap, batch: 8,
			runs: map[string]int{"a1!": 1, "b1!": 1, "c1!": 1, "a7!": 2}}
		bus := membroker.New(nil)
		if err := bus.MakeTopics(context.Background(), 1, "orders", "payments"); err != nil {
			return err
		}
		for i, text := range ridden() {
			m := skald.Message{ID: fmt.Sprintf("m-%02d", i), Source: "/other", Type: "said", Topic: "orders",
				Key: []byte(text[:1]), Data: fmt.Appendf(nil, "%q", text)}
			if err := bus.Publish(context.Background(),
				[]skald.Message{m}).Wait(context.Background()); err != nil {
				return err
			}
		}
		for _, name := range []string{"one", "two"} {
			w.Process(name, func(proc *sagatest.Process) error { return p.session(proc, name, bus) })
		}
		w.Finally("each_once_in_order", p.inOrder)
		w.Finally("nothing_kept", func() error { return empty(on.raw) })
		return nil
	}
}

func (p *parking[TTx]) inOrder() error {
	user, err := p.on.user()
	if err != nil {
		return err
	}
	want := map[string]string{}
	for _, text := range ridden() {
		want[text[:1]] += text + " "
	}
	for key, effects := range want {
		if user[key] != effects {
			return fmt.Errorf("%s has %q, want %q", key, user[key], effects)
		}
	}
	return nil
}

// TestExploreRidersEverySingleFault injects each fault at each I/O of a world in which messages share the
// transaction of the first one of their key.
// Interleavings 12, 14.
func TestExploreRidersEverySingleFault(t *testing.T) {
	sagatest.Explore(t, buildRiding(inMemory, nil),
		&sagatest.Options{Rest: 40 * time.Second, Sample: sampled(200), Failures: 3})
}
