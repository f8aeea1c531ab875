package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
)

// TestRetryAfterHasALeastWait: a handler or a call returns RetryAfter without a wait. It is retried after
// Retry.InitialInterval, not immediately. Its error is stored with the message, and one line is logged for
// all attempts.
func TestRetryAfterHasALeastWait(t *testing.T) {
	for _, wait := range []time.Duration{0, -time.Hour, 1, math.MinInt64} {
		for way, on := range map[string]func(*inbox.Inbox[tx], func() error){
			"On": func(in *inbox.Inbox[tx], later func() error) {
				inbox.On(in, said, func(context.Context, tx, skald.Received[string]) error { return later() })
			},
			"Do": func(in *inbox.Inbox[tx], later func() error) {
				c := failingCall("", nil)
				c.Do = func(context.Context, string, string) (string, error) { return "", later() }
				inbox.OnCall(in, said, c)
			},
		} {
			w := newWorld(t, 1)
			var log bytes.Buffer
			in := inbox.New(w.db, w.bus, "stock", &inbox.Options{Now: w.clock,
				Retry: inbox.Retry{InitialInterval: time.Second}, Logger: slog.New(slog.NewTextHandler(&log,
					nil))})
			runs := 0
			on(in, func() error {
				if runs++; runs > 100 {
					return nil
				}
				return skald.RetryAfter(wait, errors.New("not open yet"))
			})
			w.publish(w.message("k", "1"))
			for want := 1; want <= 3; want++ {
				w.quiet(in)
				w.pass(500 * time.Millisecond)
				w.quiet(in)
				if runs != want {
					t.Fatalf("%s, %v: %d runs, want %d", way, wait, runs, want)
				}
				w.pass(time.Second)
			}
			kept := w.kept()
			if len(kept) != 1 || !strings.Contains(kept[0].Last.Why, "not open yet") ||
				kept[0].Attempts != 0 {
				t.Errorf("%s: kept %+v", way, kept)
			}
			if n := strings.Count(log.String(), "asked for a later retry"); n != 1 {
				t.Errorf("%s: %d lines:\n%s", way, n, log.String())
			}
			if h := in.Health(); h.Failures != 0 || len(h.Stuck) != 0 {
				t.Errorf("%s: health %+v", way, h)
			}
		}
	}
}
