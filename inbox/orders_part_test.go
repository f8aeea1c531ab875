package inbox

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/skald-go/skald/internal/control"
	"github.com/skald-go/skald/store"
)

// A pause lasts until it is ended, and is logged once. The first read of the orders resumes nothing.
func TestPauseAndResume(t *testing.T) {
	var log strings.Builder
	o := newOrders("stock", slog.New(slog.NewTextHandler(&log, nil)))
	pause := control.Pause(control.Order{Who: "ann", Why: "a repair"})
	for range 2 {
		if _, resumed := o.Take(t.Context(), []store.Checkpoint{pause}); resumed || !o.Pause() ||
			!strings.Contains(o.Why(), "ann: a repair: to resume: skald consumer resume --consumer stock") {
			t.Fatalf("paused: %q, resumed: %v", o.Why(), resumed)
		}
	}
	if n := strings.Count(log.String(), "an operator paused the consumer"); n != 1 {
		t.Errorf("logged %d times: %s", n, &log)
	}
	skip := control.Skip("print", control.Order{Who: "ann"})
	skipped, resumed := o.Take(t.Context(), append(control.Resume(), skip))
	if o.Pause() || o.Why() != "" || !resumed || len(skipped) != 1 {
		t.Errorf("after resume it is paused: %q, resumed: %v, skipped: %v", o.Why(), resumed, skipped)
	}
}
