package inbox

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/vitals"
)

// A troubleFailing is work on the store, beside the messages themselves, that fails again and again.
type troubleFailing struct {
	Doing string
	Since time.Time
	Times int // in a row
	Error string
}

// work is what fails so. It belongs to one goroutine.
type work struct {
	log *slog.Logger
	of  map[string]*failingTrouble // by what is done
}

// A failingTrouble is a Failing with what is logged of it.
type failingTrouble struct {
	troubleFailing
	say backoff.Rarely
}

// newWork is work of which nothing fails. Log names the consumer.
func newWork(log *slog.Logger) *work { return &work{log: log, of: map[string]*failingTrouble{}} }

// Did notes how work on the store ended; outage: a failure was nobody's fault. What fails twice in a row is
// logged, seldom while it lasts.
func (w *work) Did(ctx context.Context, doing string, err error, outage bool, now time.Time) {
	f := w.of[doing]
	if err == nil {
		if f != nil {
			delete(w.of, doing)
			if f.say.Over() {
				w.log.InfoContext(ctx, "inbox: what failed goes well again", "doing", doing, "since", f.Since)
			}
		}
		return
	}
	if f == nil {
		f = &failingTrouble{troubleFailing: troubleFailing{Doing: doing, Since: now}, say: backoff.Seldom()}
		w.of[doing] = f
	}
	f.Times++
	f.Error = vitals.Why(err)
	if f.Times > 1 && f.say.Due(now) {
		w.log.WarnContext(ctx, "inbox: the store fails again and again", "doing", doing, "times", f.Times,
			"since", f.Since, "outage", outage, "error", err)
	}
}

// Lasting is what failed more than once in a row, by name.
func (w *work) Lasting() (out []troubleFailing) {
	for _, f := range w.of {
		if f.Times > 1 {
			out = append(out, f.troubleFailing)
		}
	}
	slices.SortFunc(out, func(a, b troubleFailing) int { return strings.Compare(a.Doing, b.Doing) })
	return out
}
