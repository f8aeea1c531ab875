package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// hanging is a consumer with handlers and calls that ignore their contexts. Each first attempt fails.
type hanging struct {
	*world
	release chan struct{}
	mu      sync.Mutex
	begun   map[string]int
	calls   bool
	batch   int
}

func newHanging(t *testing.T, calls bool) *hanging {
	h := &hanging{calls: calls, world: newWorld(t, 1), release: make(chan struct{}), begun: map[string]int{}}
	t.Cleanup(func() { close(h.release) })
	return h
}

// at returns the number of the attempt that hangs: a call is parked before its first attempt.
func (h *hanging) at() int {
	switch {
	case h.calls:
		return 1
	case h.batch > 0:
		return 3 // its second one ends the batch
	}
	return 2
}

// begin counts an attempt. The attempt hangs, fails or succeeds.
func (h *hanging) begin(what string) error {
	h.mu.Lock()
	h.begun[what]++
	n := h.begun[what]
	h.mu.Unlock()
	switch {
	case what == "hang" && n >= h.at():
		<-h.release
	case n == 1, what == "hang":
		return errors.New("once")
	}
	return nil
}

func (h *hanging) count(what string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begun[what]
}

func (h *hanging) consumer() *inbox.Inbox[tx] {
	in := inbox.New(h.db, h.bus, "stock", &inbox.Options{Now: h.clock, Workers: 2, Batch: h.batch,
		Logger: slog.New(slog.DiscardHandler),
		Timeouts: inbox.Timeouts{Handle: 50 * time.Millisecond, Wait: 10 * time.Millisecond,
			Drain: time.Millisecond},
		Retry:   inbox.Retry{InitialInterval: time.Millisecond, MaxInterval: time.Millisecond},
		Breaker: inbox.Breaker{Off: true}})
	if !h.calls {
		inbox.On(in, said, func(_ context.Context, _ tx, m skald.Received[string]) error {
			return h.begin(m.Value)
		})
		return in
	}
	inbox.OnCall(in, said, call.Call[tx, string, string, string]{
		At: call.NewProvider("p", &call.ProviderOptions{Timeout: 50 * time.Millisecond, Limit: 4}),
		Intent: func(_ context.Context, _ tx, m skald.Received[string]) (string, string, error) {
			return m.Value, m.ID, nil
		},
		Do: func(_ context.Context, what, _ string) (string, error) {
			return "", h.begin(what)
		},
		Settle: func(context.Context, tx, skald.Received[string], call.Outcome[string]) error { return nil },
	})
	return in
}

func (h *hanging) row(what string) (p store.Parked) {
	for _, k := range h.kept() {
		if strings.Contains(string(k.Message.Data), what) {
			p = k
		}
	}
	return p
}

// If a handler or a call still runs after its claim has ended, the inbox does not start it a second time. Its
// key waits, no crash is counted, and other keys continue.
func TestClaimedMessageIsBegunOnceAtATime(t *testing.T) {
	t.Parallel()
	for name, calls := range map[string]bool{"handler": false, "call": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHanging(t, calls)
			run(t, h.consumer())
			h.publish(h.message("k", "hang"), h.message("k", "behind"))
			goOn := func(what string) {
				t.Helper()
				h.publish(h.message(what, what))
				until(t, what+" is handled although its first attempt failed", func() bool {
					h.pass(10 * time.Millisecond)
					return h.count(what) >= 2 // a busy machine may be too slow for the second attempt
				})
			}
			until(t, "it hangs", func() bool {
				h.pass(10 * time.Millisecond)
				return h.count("hang") == h.at()
			})
			for _, what := range []string{"a", "b", "c", "d"} {
				h.pass(time.Hour) // no lease is so long
				goOn(what)
			}
			if p := h.row("hang"); h.count("hang") != h.at() || h.count("behind") != 0 || p.Claims > 1 ||
				p.CrashCount > 0 {
				t.Errorf("it was begun %d times, the next of its key %d times; %d claims, %d crashes",
					h.count("hang"), h.count("behind"), p.Claims, p.CrashCount)
			}
		})
	}
}

// TestCallsThatIgnoreTheirContexts checks that such calls keep no worker, and that this process does not make
// them again while they run.
func TestCallsThatIgnoreTheirContexts(t *testing.T) {
	t.Parallel()
	h := newHanging(t, true)
	run(t, h.consumer()) // with two workers
	for _, key := range []string{"k", "l", "m"} {
		h.publish(h.message(key, "hang"))
	}
	h.publish(h.message("a", "well"))
	until(t, "the other message is handled", func() bool {
		h.pass(10 * time.Millisecond)
		return h.count("well") >= 2 // its first attempt fails
	})
	until(t, "each call that hangs has failed", func() bool {
		h.pass(10 * time.Millisecond)
		failed := 0
		for _, p := range h.kept() {
			if strings.Contains(p.Last.Why, "ignores its context") {
				failed++
			}
		}
		return failed == 3
	})
	h.pass(time.Hour)
	if n := h.count("hang"); n != 3 {
		t.Errorf("%d calls, want one for each message", n)
	}
}

// A suspect runs alone, but others do not wait for one that does not return.
func TestSuspectThatHangsDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	h := newHanging(t, false)
	h.publish(h.message("k", "hang"))
	first := h.consumer()
	h.quiet(first)
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // processes claim it, and are killed
		h.pass(time.Hour)
		c, err := h.db.Claim(t.Context(), store.ClaimRequest{Consumer: "stock",
			Session:   fmt.Sprint("gone", i),
			ClaimSize: store.ClaimSize{Keys: 1}, Lease: time.Second})
		if err != nil || len(c.Parked) != 1 {
			t.Fatal(c, err)
		}
	}
	h.pass(time.Hour)
	in := h.consumer()
	run(t, in)
	until(t, "it hangs", func() bool {
		h.pass(10 * time.Millisecond)
		return h.count("hang") == 2
	})
	for _, what := range []string{"a", "b"} {
		h.publish(h.message(what, what))
		until(t, what+" is handled", func() bool {
			h.pass(time.Millisecond)
			return h.count(what) >= 2
		})
	}
	if p := h.row("hang"); p.CrashCount != 0 || h.count("hang") != 2 || len(in.Health().Stuck) == 0 {
		t.Errorf("%d crashes, %d attempts, %+v", p.CrashCount, h.count("hang"), in.Health())
	}
}

// The claims of a batch are renewed while one of its messages runs alone for long, so no other instance
// begins those that wait for the same worker.
func TestClaimsOfABatchAreRenewed(t *testing.T) {
	t.Parallel()
	h := newHanging(t, false)
	h.batch = 8
	run(t, h.consumer())
	for i := range 4 { // after a success claimed messages share transactions
		what := fmt.Sprint("well", i)
		h.publish(h.message(what, what))
		until(t, what+" is handled", func() bool {
			h.pass(10 * time.Millisecond)
			return h.count(what) >= 2
		})
	}
	for _, what := range []string{"hang", "beside"} { // one by one: in a batch, a failed message begins again
		h.publish(h.message(what, what))
		until(t, what+" has failed", func() bool { return h.row(what).Attempts == 1 })
	}
	until(t, "both are claimed, and one hangs", func() bool {
		h.pass(10 * time.Millisecond)
		return h.count("hang") == h.at()
	})
	// After 5 s in real time the batch gives "beside" back, and another worker begins it.
	began := time.Now()
	givenBack := func() bool { return time.Since(began) > 4*time.Second }
	rival := h.consumer()
	for range 3 {
		h.pass(3 * time.Second)
		until(t, "the claim is renewed",
			func() bool { return givenBack() || h.row("beside").Due > 3*time.Second })
		if givenBack() {
			return // on a slow machine
		}
		h.quiet(rival)
	}
	if n := h.count("beside"); n != 1 && !givenBack() {
		t.Errorf("the message that waits was begun %d times", n)
	}
}
