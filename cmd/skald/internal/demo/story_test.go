package demo

import (
	"testing"
	"time"
)

// What services receive once more stands in one line for each message.
func TestAgain(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	repeats := []repeat{
		{Message: "m", Service: "order", At: at.Add(2 * time.Second)},
		{Message: "m", Service: "payment", At: at},
		{Message: "other", Service: "tracker", At: at.Add(-time.Second)},
		{Message: "m", Service: "order", At: at.Add(time.Second)},
	}
	if first, who := receivers(repeats, "m"); who != "order ×2, payment" || !first.Equal(at) {
		t.Errorf("%q at %v", who, first)
	}
	if _, who := receivers(repeats, "none"); who != "" {
		t.Errorf("of a message that nobody received again: %q", who)
	}
}
