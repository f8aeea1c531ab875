package inbox

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// weekly is a broker that keeps messages for a week.
type weekly struct{}

func (weekly) Keeps(context.Context, ...string) (map[string]time.Duration, error) {
	return map[string]time.Duration{"orders": 7 * 24 * time.Hour}, nil
}

// If marks are kept for a shorter time than the broker keeps messages, the consumer returns an error, or
// logs it if that is allowed. Window.Broker overrides the answer of the broker.
func TestMarksHaveToOutliveTheBroker(t *testing.T) {
	for _, c := range []struct {
		marks, broker  time.Duration
		short          bool
		broken, logged bool
	}{
		{marks: 30 * 24 * time.Hour},
		{marks: 3 * 24 * time.Hour, broken: true},
		{marks: 3 * 24 * time.Hour, short: true, logged: true},
		{marks: 8 * 24 * time.Hour, broker: 20 * 24 * time.Hour, broken: true},
	} {
		var log strings.Builder
		n := markNeeds{Topics: []string{"orders"}, DB: memstore.New(nil), Bus: weekly{},
			Keep: &store.Retention{Outbox: time.Hour, Marks: c.marks},
			Age:  time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil)), Outbox: time.Minute,
			Broker: c.broker, AllowShort: c.short}
		w, err := n.Window(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Compare(t.Context(), w); (err != nil) != c.broken ||
			strings.Contains(log.String(), "too briefly") != c.logged {
			t.Errorf("marks for %v: %v; the log has %s", c.marks, err, &log)
		}
	}
}

// examined is a database with a finding about its retention.
type examined struct {
	store.Store
	found skald.Finding
}

func (e examined) Examine(context.Context, store.Exam) ([]skald.Finding, error) {
	return []skald.Finding{{Name: "version", Grade: skald.Failed}, e.found}, nil
}

// An inbox without Retention.Keep logs that no process deletes expired marks, after the time in which a
// relay would have.
func TestMissingRetentionIsLogged(t *testing.T) {
	for remedy, lines := range map[string]int{"": 0, "start a relay": 1} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			k := markKeeper{Log: slog.New(slog.NewTextHandler(&log, nil)), DB: examined{memstore.New(nil),
				skald.Finding{Name: "retention", Observed: "none", Remedy: remedy}}}
			k.Run(t.Context())
			if n := strings.Count(log.String(), "no process deletes expired marks"); n != lines {
				t.Errorf("with the remedy %q the log has %s", remedy, &log)
			}
		})
	}
}
