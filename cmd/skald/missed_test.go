package main_test

import (
	"strings"
	"testing"

	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// What the broker removed unread is listed, and acknowledged for a reason; doctor then lists it no more.
func TestAcknowledgeMissed(t *testing.T) { onEachStore(t, testAcknowledgeMissed) }

func testAcknowledgeMissed(t *testing.T, fresh func(*testing.T) *bed) {
	b := fresh(t).migrate()
	missed := func(consumer, why string) {
		_, err := b.s.Apply(t.Context(), store.Effect{Audit: &store.Audit{Author: "skald", Action: "missed",
			Reason: why, Consumer: consumer}})
		must(t, err)
	}
	says := func(code int, want string, args ...string) {
		t.Helper()
		p := start(t, b.env, append([]string{"consumer", "acknowledge-missed"}, args...)...)
		if code > 0 {
			p.expect(code, want)
		} else if p.expect(0); !strings.Contains(p.out.String(), want) {
			t.Errorf("%v says %s", args, p.out.String())
		}
	}
	says(2, "--reason")
	says(4, "unacknowledged losses", "--consumer", "stock", "--reason", "x", "--yes")
	missed("stock", "3 messages of partition orders/0")
	says(2, "--yes", "--reason", "sent again")
	says(0, "3 messages of partition orders/0", "--dry-run")
	missed("billing", "7 messages of partition orders/1")
	says(2, "billing", "--reason", "x", "--yes")
	says(4, "billing", "--consumer", "sock", "--reason", "x", "--yes")
	start(t, b.env, "doctor").expect(8)
	says(0, `"missed":["3 messages of partition orders/0"]`, "--consumer", "stock", "--reason", "sent again",
		"--by", "ann", "--yes", "--json")
	says(0, "The losses of billing so far are acknowledged", "--reason", "not needed", "--by", "ann", "--yes")
	says(4, "unacknowledged losses", "--reason", "x", "--yes")
	if left, err := operate.Missed(t.Context(), b.s); err != nil || len(left) != 0 {
		t.Errorf("left are %v: %v", left, err)
	}
	if n := b.count("skald_audit WHERE action = 'missed acknowledged' AND author = 'ann'"); n != 2 {
		t.Errorf("%d are noted", n)
	}
}
