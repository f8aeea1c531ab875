package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// If the messages of a consumer fail for the same reason, it stops and logs the reason. Then it tries one
// message at a time, and continues after a success. The messages of the topic do not all become dead letters.
func TestBreakerStopsAConsumerWithOneFailure(t *testing.T) {
	w := newWorld(t, 1)
	broken := true
	var log bytes.Buffer
	in := w.inbox(&inbox.Options{Now: w.clock, Breaker: inbox.Breaker{Least: 10, Rest: 30 * time.Second},
		Logger: slog.New(slog.NewTextHandler(&log, nil))},
		func(ctx context.Context, tx tx, m skald.Received[string]) error {
			if broken {
				return skald.Permanent(fmt.Errorf("no column %q in order %d", m.Value, w.n))
			}
			return keep(ctx, tx, m)
		})
	for n := range 100 {
		w.publish(w.message(fmt.Sprint("k", n), "1"))
	}
	w.quiet(in)
	h := in.Health()
	if len(w.dead()) != 10 || h.Ready || !h.Live ||
		!strings.Contains(h.Stopped, "10 of 10 messages failed in one way") || h.Unacknowledged != 90 {
		t.Fatalf("%d dead letters, health %+v", len(w.dead()), h)
	}
	if !strings.Contains(log.String(), "level=ERROR msg=\"inbox: the consumer is stopped\"") {
		t.Errorf("the log has %s", &log)
	}
	for n, rest := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute} {
		w.pass(rest - time.Second)
		w.quiet(in)
		if got := len(w.dead()); got != 10+n {
			t.Fatalf("%d dead letters before the rest is over", got)
		}
		w.pass(time.Second)
		w.quiet(in)
		if got := len(w.dead()); got != 11+n {
			t.Fatalf("%d dead letters after the try of one message", got)
		}
	}
	broken = false
	w.pass(time.Hour)
	w.quiet(in)
	if h := in.Health(); !h.Ready || h.Stopped != "" || h.Handled != 87 || len(w.dead()) != 13 ||
		h.Unacknowledged != 0 {
		t.Errorf("%d dead letters, health %+v", len(w.dead()), h)
	}
}

// Few failures, failures with different reasons, and outages do not open the breaker. A message that fails
// repeatedly counts once.
func TestBreakerStaysClosed(t *testing.T) {
	for name, c := range map[string]struct {
		fails func(n int) error
		every time.Duration
	}{
		"fewer than the share": {func(n int) error { return some(n%3 == 0, errors.New("no")) }, 0},
		"each for another reason": {func(n int) error { return fmt.Errorf("no: %s", strings.Repeat("x", n)) },
			0},
		"few in a window":        {func(int) error { return errors.New("no") }, 10 * time.Second},
		"one of them, for long":  {func(n int) error { return some(n == 0, errors.New("no")) }, 0},
		"an outage":              {func(n int) error { return some(n < 5, store.ErrBusy) }, 0},
		"a newer build knows it": {func(int) error { return skald.UnknownVersion(errors.New("9")) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			in := w.inbox(&inbox.Options{Now: w.clock, Retry: inbox.Retry{Attempts: 100},
				Breaker: inbox.Breaker{Least: 10}},
				func(_ context.Context, _ tx, m skald.Received[string]) error {
					var n int
					if _, err := fmt.Sscan(m.Value, &n); err != nil {
						return err
					}
					return c.fails(n)
				})
			for n := range 60 {
				w.publish(w.message(fmt.Sprint("k", n), fmt.Sprint(n)))
				w.pass(c.every)
				w.quiet(in)
			}
			for range 30 {
				w.pass(time.Second)
				w.quiet(in)
			}
			if h := in.Health(); h.Stopped != "" {
				t.Errorf("stopped: %s", h.Stopped)
			}
		})
	}
}

func some(fails bool, err error) error {
	if fails {
		return err
	}
	return nil
}

// Run stops and continues, too. It claims no parked messages while it is stopped.
func TestBreakerUnderRun(t *testing.T) {
	w := newWorld(t, 2)
	mended := make(chan struct{})
	in := w.inbox(&inbox.Options{Breaker: inbox.Breaker{Least: 10, Rest: 500 * time.Millisecond},
		Retry: inbox.Retry{MaxInterval: time.Second, Attempts: 1000}},
		func(ctx context.Context, tx tx, m skald.Received[string]) error {
			select {
			case <-mended:
				return keep(ctx, tx, m)
			default:
				return errors.New("no such column")
			}
		})
	for n := range 200 {
		w.publish(w.message(fmt.Sprint("k", n), "1"))
	}
	stop := run(t, in)
	until(t, "it is stopped", func() bool { return in.Health().Stopped != "" })
	if n := len(w.kept()); n > 100 { // one per rest, and those in progress
		t.Errorf("%d messages are parked", n)
	}
	close(mended)
	until(t, "all are handled", func() bool {
		w.pass(10 * time.Millisecond) // the store's clock
		h := in.Health()
		return h.Handled == 200 && h.Stopped == "" && h.Parked == 0
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// Malformed messages become dead letters one by one. The consumer handles the good messages behind them,
// even if a producer sends many malformed ones.
func TestMalformedMessagesDoNotStopTheConsumer(t *testing.T) {
	w := newWorld(t, 1)
	var log bytes.Buffer
	in := w.inbox(&inbox.Options{Now: w.clock, Limits: inbox.Limits{Unacknowledged: 20, ParkedRows: 10},
		Breaker: inbox.Breaker{Least: 10}, Logger: slog.New(slog.NewTextHandler(&log, nil))}, keep)
	for n := range 400 {
		m := w.message("", "")
		switch m.Data = []byte("{"); n % 4 {
		case 1:
			m.Key = fmt.Append(nil, "bad", n)
		case 2:
			m.ID = "" // it has no identity
		}
		w.publish(m)
	}
	other := w.message("good", "1")
	other.Source = "/another"
	w.publish(other, w.message("good", "2"))
	w.quiet(in)
	w.expect("good", "1 2")
	h := in.Health()
	if n := len(w.dead()); n != 400 || h.Stopped != "" || !h.Ready || h.Unacknowledged != 0 || h.Parked != 0 {
		t.Errorf("%d dead letters, %+v", n, h)
	}
	if n := strings.Count(log.String(), "level=ERROR"); n == 0 || n > 10 {
		t.Errorf("%d dead letters are logged", n)
	}
}

// A stopped consumer tries messages until one of them shows that its handlers work. A malformed or too
// large message shows nothing, so its publisher cannot prolong the stop.
func TestMalformedMessageDoesNotProlongAStop(t *testing.T) {
	w := newWorld(t, 1)
	broken := true
	in := w.inbox(&inbox.Options{Now: w.clock, Breaker: inbox.Breaker{Least: 10, Rest: 30 * time.Second}},
		func(ctx context.Context, tx tx, m skald.Received[string]) error {
			if broken {
				return skald.Permanent(errors.New("no column"))
			}
			return keep(ctx, tx, m)
		})
	for n := range 10 {
		w.publish(w.message(fmt.Sprint("k", n), "1"))
	}
	w.quiet(in)
	if in.Health().Stopped == "" {
		t.Fatal("it is not stopped")
	}
	for range 5 {
		malformed, large := w.message("", ""), w.message("", strings.Repeat("x", 950_000))
		malformed.Data = []byte("{")
		w.publish(malformed, large)
	}
	w.publish(w.message("good", "1"))
	broken = false
	w.pass(30 * time.Second)
	w.quiet(in)
	w.expect("good", "1")
	if h := in.Health(); h.Stopped != "" || len(w.dead()) != 20 {
		t.Errorf("%d dead letters, stopped: %s", len(w.dead()), h.Stopped)
	}
}
