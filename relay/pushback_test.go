package relay_test

import (
	"errors"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/relay"
)

// TestFullTopic checks that a full topic is retried at growing intervals. It causes repeats of rows of other
// topics only once, and only a few. The rows of the full topic are deferred, and Health names the topic. The
// rows are published in order when the topic has room again.
func TestFullTopic(t *testing.T) {
	w := newWorld(t, "open")
	full, tries := true, 0
	w.mem = membroker.New(&membroker.Options{Fail: func(m *skald.Message) error {
		if m.Topic == "full" && full {
			tries++
			return errors.New("no room")
		}
		return nil
	}})
	w.bus = &spoiled{Broker: w.mem}
	w.topics("open", "full")
	r := relay.New(w.db, w.mem, &relay.Options{DeferMost: 10 * time.Second,
		Now: func() time.Time { return w.now }})
	w.write("full", "k", "1", "2")
	for range 200 {
		w.write("open", "", "x")
	}
	w.quiet(r)
	got, repeats := w.delivered("open")
	if n := len(got[""]); n != 200 || repeats > 2*200 {
		t.Errorf("of 200 messages to another topic %d arrived, and %d were repeated", n, repeats)
	}
	if tries > 20 {
		t.Errorf("%d retries of a full topic in a minute", tries)
	}
	if h := r.Health(); !h.Ready || h.PushedBack["full"] == "" {
		t.Errorf("health is %+v", h)
	}
	w.write("full", "k", "3")
	w.write("full", "l", "a") // another shard may have room
	w.write("open", "k", "y")
	w.quiet(r)
	if got, again := w.delivered("open"); len(got["k"]) != 1 || again != repeats {
		t.Errorf("another topic got %v, %d repeats, %d before", got["k"], again, repeats)
	}
	full = false
	w.quiet(r)
	w.expect("full", "k", "1", "2", "3")
	w.expect("full", "l", "a")
	w.quiet(r)
	w.quiet(r)
	w.quiet(r)
	if h := r.Health(); len(h.PushedBack) > 0 {
		t.Errorf("two minutes after the last failure health still has %v", h.PushedBack)
	}
}
