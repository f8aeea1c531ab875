package inbox

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
)

var errColumn = errors.New("no column\nin the table")

func breakerLimits() Breaker {
	return Breaker{Share: 0.5, Least: 3, Window: time.Minute, Rest: time.Second}
}

func failed(print string) exec.Result {
	return exec.Result{Entry: &partition.Entry{}, What: decide.Failed, Print: print, Err: errColumn}
}

func handled(e *partition.Entry) exec.Result { return exec.Result{Entry: e, What: decide.Handled} }

// The breaker opens if more than Share of the messages in a window fail for the same reason, and it names
// the reason. Other failures and old ones do not count.
func TestBreakerOpensByShareOfOneReason(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		results []exec.Result
		pause   time.Duration // between two of them
		want    bool
	}{
		"three of three": {[]exec.Result{failed("a"), failed("a"), failed("a")}, 0, true},
		"too few":        {[]exec.Result{failed("a"), failed("a")}, 0, false},
		"in several ways": {[]exec.Result{failed("a"), failed("b"), failed("a"), failed("b")}, 0,
			false},
		"half of them": {[]exec.Result{failed("a"), handled(nil), failed("a"), handled(nil),
			failed("a"), handled(nil)}, 0, false},
		"not within a window": {[]exec.Result{failed("a"), failed("a"), failed("a")},
			40 * time.Second, false},
		"retries count once": {[]exec.Result{failed("a"), failed("a"), failed("")}, 0, false},
		"outages are no failures": {[]exec.Result{failed("a"), failed("a"),
			{What: decide.Outage, Err: errColumn}}, 0, false},
	} {
		b, at, open := newBreaker(breakerLimits()), now, false
		for _, r := range c.results {
			open, _ = b.Note(r, at)
			at = at.Add(c.pause)
		}
		if open != c.want || (b.Why() != "") != c.want || strings.Contains(b.Why(), "\n") {
			t.Errorf("%s: open %v: %s", name, open, b.Why())
		}
	}
}

// An open breaker starts no message during its rest, and then one message, the probe. Each failure of the
// probe doubles the rest. Messages that started before do not count.
func TestBreakerTriesOne(t *testing.T) {
	b, now := newBreaker(breakerLimits()), time.Now()
	for range 3 {
		b.Note(failed("a"), now)
	}
	for _, rest := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		if wait, alone := b.Restrict(now); wait != rest || !alone {
			t.Fatalf("it rests for %v, want %v", wait, rest)
		}
		now = now.Add(rest)
		probe := &partition.Entry{}
		b.Try(probe)
		if opened, closed := b.Note(handled(&partition.Entry{}), now); opened || closed {
			t.Error("a message that began before decides")
		}
		if opened, _ := b.Note(exec.Result{Entry: probe, What: decide.Failed, Err: errColumn}, now); !opened {
			t.Error("a failure does not open it again")
		}
	}
	probe := &partition.Entry{}
	b.Try(probe)
	if _, closed := b.Note(handled(probe), now); !closed || b.Why() != "" {
		t.Errorf("a success does not close it: %s", b.Why())
	}
}
