package rabbitbroker

import (
	"testing"
	"time"
)

// A lowered prefetch is raised as far as the latest messages fit, at a quiet moment, or later all the same.
func TestPrefetchIsRaisedAgain(t *testing.T) {
	at := time.Now()
	flying := func(prefetch, messages, size, unacked int) flight {
		f := flight{prefetch: prefetch, since: at}
		for range messages {
			f.add(size)
		}
		f.removeUpTo(int64(messages - unacked))
		return f
	}
	for name, c := range map[string]struct {
		f     flight
		after time.Duration
		want  int
	}{
		"small":           {flying(8, 8, 1000, 0), calm, 1000},
		"too early":       {flying(8, 8, 1000, 0), calm / 2, 0},
		"too few":         {flying(8, 7, 1000, 0), calm, 0},
		"in progress":     {flying(8, 8, 1000, 8), calm, 0},
		"long":            {flying(8, 8, 1000, 8), 2 * calm, 1000},
		"of middle size":  {flying(8, 8, 1<<20, 0), calm, 32},
		"as large":        {flying(8, 8, 4<<20, 0), calm, 0},
		"not lowered":     {flying(1000, 1000, 10, 0), calm, 0},
		"nearly":          {flying(600, 600, 10, 0), calm, 1000},
		"a little larger": {flying(20, 20, 1<<20, 0), calm, 0},
	} {
		if got := c.f.wider(1000, inFlight, at.Add(c.after)); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
