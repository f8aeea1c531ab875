package retention

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// Each sum that is more than marks are kept is named, in numbers, and one that is just as much is not.
func TestWindow(t *testing.T) {
	fine := Window{Marks: 30 * day, Outbox: 7 * day, Age: day,
		Broker: map[string]time.Duration{"orders": 23 * day, "log": broker.Forever}}
	for name, c := range map[string]struct {
		change func(*Window)
		want   []string
	}{
		"just as long": {func(*Window) {}, nil},
		"no broker":    {func(w *Window) { w.Broker, w.Outbox = nil, 30*day }, nil},
		"outbox alone": {func(w *Window) { w.Broker, w.Outbox = nil, 31*day },
			[]string{"marks are kept 30 days, less than 31 days, in which a message may leave the outbox"}},
		"kept for ever alone": {func(w *Window) { delete(w.Broker, "orders"); w.Outbox = 30 * day }, nil},
		"outbox, for ever": {func(w *Window) { delete(w.Broker, "orders"); w.Outbox = 31 * day },
			[]string{"less than 31 days, in which a message may leave the outbox"}},
		"any topic": {func(w *Window) { w.Broker = map[string]time.Duration{"": 24 * day} },
			[]string{
				"31 days, in which a message may come: 7 days in the outbox of its producer and 24 days at"}},
		"nearly for ever": {func(w *Window) { w.Broker["orders"] = broker.Forever - 1 },
			[]string{"in which a message of topic orders may come"}},
		"broker": {func(w *Window) { w.Broker["orders"] += time.Hour },
			[]string{"less than 721h, in which a message of topic orders may come: 7 days in the outbox of its producer and 553h at the broker"}},
		"outbox and broker": {func(w *Window) { w.Outbox += day },
			[]string{"31 days, in which a message of topic orders"}},
		"retries": {func(w *Window) { w.Age = 40 * day },
			[]string{"40 days, in which a failing message is tried again"}},
		"sagas": {func(w *Window) { w.Saga = 40 * day },
			[]string{"40 days, in which a saga may end"}},
		"steps": {func(w *Window) { w.Marks, w.Steps, w.Saga = 100*day, 90*day, 91*day },
			[]string{"steps are kept 90 days, less than 91 days, in which a saga may end"}},
		"dead letters": {func(w *Window) { w.Dead = 40 * day },
			[]string{"40 days, in which a dead letter may come again"}},
		"everything, in order": {func(w *Window) { w.Marks = 90 * time.Minute },
			[]string{"marks are kept 1h30m, less than 30 days", "24h"}},
	} {
		w := fine
		w.Broker = map[string]time.Duration{"orders": 23 * day, "log": broker.Forever}
		c.change(&w)
		got := w.Broken()
		if len(got) != len(c.want) {
			t.Errorf("%s: %v", name, got)
			continue
		}
		for i, want := range c.want {
			var refused *store.RetentionError
			if !errors.As(got[i], &refused) || !strings.Contains(got[i].Error(), want) ||
				refused.Remedy == "" {
				t.Errorf("%s: %v, want %q", name, got[i], want)
			}
		}
	}
	if got := fine.Endless(); !slices.Equal(got, []string{"log"}) {
		t.Errorf("kept for ever: %v", got)
	}
}
