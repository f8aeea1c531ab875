package demo

import (
	"testing"

	"github.com/skald-go/skald/examples/shop/audit"
)

// Without its mark a shop on a busy machine may write faster than it ends: the demo must not wait for that.
// Where all safeguards are there, nothing but rest ends it.
func TestRunaway(t *testing.T) {
	for _, c := range []struct {
		sabotage string
		written  int
		over     bool
	}{
		{noMark, 2549, false}, // as seen where the repeats came to an end
		{noMark, 20_770, true},
		{"", 20_770, false},
	} {
		one := crew{o: &Options{Orders: 200, Sabotage: c.sabotage}}
		if got := one.runaway(audit.Tally{Written: c.written}); got != c.over {
			t.Errorf("%q, %d written: %t", c.sabotage, c.written, got)
		}
	}
}
