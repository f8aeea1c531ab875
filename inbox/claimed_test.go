package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
)

// recovery is a consumer with parked messages that now succeed, except for some.
type recovery struct {
	w    *world
	bad  func(value string) bool
	db   *begins
	in   map[int]int // handlers that ran in a transaction
	most int         // of these
	runs map[string]int
	with map[string]int // number of the last transaction of each message
}

func newRecovery(t *testing.T, keys int) *recovery {
	r := &recovery{w: newWorld(t, 2), in: map[int]int{}, runs: map[string]int{}, with: map[string]int{}}
	r.db = &begins{Driver: r.w.db}
	r.bad = func(string) bool { return true }
	in := r.inbox(false)
	for i, value := range []string{"first", "second"} {
		for n := range keys {
			r.w.publish(r.w.message(fmt.Sprint("k", n), fmt.Sprint(value, n)))
		}
		if i == 0 {
			r.w.quiet(in)
		}
	}
	r.w.quiet(in)
	if got := len(r.w.kept()); got != 2*keys {
		t.Fatalf("%d are parked", got)
	}
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.bad = func(string) bool { return false }
	r.forget()
	r.w.pass(2 * time.Minute)
	return r
}

func (r *recovery) forget() {
	r.most = 0
	clear(r.in)
	clear(r.runs)
}

func (r *recovery) handle(ctx context.Context, t tx, m skald.Received[string]) error {
	r.runs[m.Value]++
	r.in[r.db.n]++
	r.with[m.Value] = r.db.n
	r.most = max(r.most, r.in[r.db.n])
	if r.bad(m.Value) {
		return errors.New("no")
	}
	return keep(ctx, t, m)
}

func (r *recovery) inbox(many bool) *inbox.Inbox[tx] { return r.over(r.w.bus, many) }

func (r *recovery) over(bus *membroker.Broker, many bool) *inbox.Inbox[tx] {
	in := inbox.New(r.db, bus, "stock", &inbox.Options{Now: r.w.clock, Workers: 2, Batch: 100,
		Retry:  inbox.Retry{InitialInterval: time.Minute, MaxInterval: time.Minute},
		Logger: slog.New(slog.DiscardHandler), Breaker: inbox.Breaker{Off: true}})
	inbox.On(in, said, r.handle)
	if many {
		inbox.Overridable(in)
		inbox.OnBatch(in, said, func(ctx context.Context, t tx, ms []skald.Received[string]) error {
			for i, m := range ms {
				if err := r.handle(ctx, t, m); err != nil {
					return inbox.FailMessage(i, err)
				}
			}
			return nil
		})
	}
	return in
}

// Parked messages share transactions as other messages do, after the first success. Each key is in order,
// and none is left.
func TestParkedMessagesShareTransactions(t *testing.T) {
	t.Parallel()
	for _, many := range []bool{false, true} {
		const keys = 200
		r := newRecovery(t, keys)
		in := r.inbox(many)
		r.w.quiet(in)
		for n := range keys {
			r.w.expect(fmt.Sprint("k", n), fmt.Sprintf("first%d second%d", n, n))
		}
		if left := r.w.kept(); len(left) > 0 {
			t.Errorf("%d are left", len(left))
		}
		if r.most < 20 || len(r.in) > 60 {
			t.Errorf("%d messages took %d transactions, at most %d shared one", 2*keys, len(r.in), r.most)
		}
		if h := in.Health(); h.Handled != 2*keys || h.Failures > 0 {
			t.Errorf("health %+v", h)
		}
	}
}

// While they still fail, each runs alone, and no failure counts for another message.
func TestParkedMessagesThatFailAgainShareNothing(t *testing.T) {
	t.Parallel()
	for _, many := range []bool{false, true} {
		const keys = 50
		r := newRecovery(t, keys)
		r.bad = func(value string) bool { return strings.HasPrefix(value, "first") }
		in := r.inbox(many)
		r.w.quiet(in)
		if len(r.runs) != keys || r.most != 1 {
			t.Errorf("%d ran, at most %d in a transaction", len(r.runs), r.most)
		}
		for _, p := range r.w.kept() {
			if first := strings.Contains(string(p.Message.Data), "first"); first != (p.Attempts == 2) ||
				p.Claims > 0 {
				t.Errorf("kept %s: %d attempts, %d claims", p.Message.Data, p.Attempts, p.Claims)
			}
		}
		for value, n := range r.runs {
			if n != 1 {
				t.Errorf("%s ran %d times", value, n)
			}
		}
	}
}

// One of several claimed messages fails. Its failure counts for that message only. The others take effect
// after at most one more run.
func TestOnlyTheFailedParkedMessageIsCharged(t *testing.T) {
	for _, many := range []bool{false, true} {
		const keys = 120
		r := newRecovery(t, keys)
		r.bad = func(value string) bool { return value == "first100" }
		in := r.inbox(many)
		r.w.quiet(in)
		for n := range keys {
			want := fmt.Sprintf("first%d second%d", n, n)
			if n == 100 {
				want = ""
			}
			r.w.expect(fmt.Sprint("k", n), want)
		}
		left := r.w.kept()
		if len(left) != 2 || left[0].Attempts != 2 || left[1].Attempts != 0 || left[0].Claims+
			left[1].Claims > 0 {
			t.Errorf("kept %+v", left)
		}
		for value, n := range r.runs {
			if n > 2 {
				t.Errorf("%s ran %d times", value, n)
			}
		}
		if r.most < 2 {
			t.Error("none shared a transaction")
		}
	}
}

// Messages that two dead processes had claimed run alone, each by itself.
func TestClaimedByDeadProcessesAreTakenAlone(t *testing.T) {
	const keys = 200
	r := newRecovery(t, keys)
	claimed := map[string]bool{}
	for deaths := 1; deaths <= 2; deaths++ {
		bus := r.w.bus.Client()
		died := r.over(bus, false)
		for steps := 0; len(claimed) < 2; steps++ {
			if _, err := died.Step(t.Context()); err != nil || steps > 1000 {
				t.Fatalf("%d are claimed for the %d. time: %v", len(claimed), deaths, err)
			}
			clear(claimed)
			for _, p := range r.w.kept() {
				if p.Claims == deaths {
					claimed[strings.Trim(string(p.Message.Data), `"`)] = true
				}
			}
		}
		if err := bus.Close(); err != nil {
			t.Fatal(err)
		}
		if deaths < 2 {
			clear(claimed)
		}
		r.forget()
		r.w.pass(2 * time.Minute)
	}
	r.w.quiet(r.inbox(false))
	for value := range claimed {
		if n := r.in[r.with[value]]; n != 1 {
			t.Errorf("%s shared a transaction of %d", value, n)
		}
	}
	for n := range keys {
		r.w.expect(fmt.Sprint("k", n), fmt.Sprintf("first%d second%d", n, n))
	}
}
