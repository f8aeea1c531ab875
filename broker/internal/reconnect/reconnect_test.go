package reconnect_test

import (
	"testing"
	"time"

	"github.com/skald-go/skald/broker/internal/reconnect"
)

// Each wait is at most twice the one before, and none is longer than a second.
func TestAfter(t *testing.T) {
	for fails, most := range map[int]time.Duration{0: 50, 1: 50, 2: 100, 5: 800, 6: 1000, 1000: 1000} {
		most *= time.Millisecond
		for range 100 {
			if d := reconnect.After(fails); d > most || d <= most*3/4 {
				t.Fatalf("%v after %d fails, at most %v", d, fails, most)
			}
		}
	}
}
