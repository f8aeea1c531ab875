package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// keeper is a broker that reports how long it keeps messages.
type keeper struct {
	*membroker.Broker
	keeps map[string]time.Duration
	asked int
	away  error
}

func (k *keeper) Keeps(context.Context, ...string) (map[string]time.Duration, error) {
	k.asked++
	return k.keeps, k.away
}

const days = 24 * time.Hour

// If marks expire before messages can come, the consumer does not start. The error has both times. With
// AllowShort it starts.
func TestWindowIsCheckedAtTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		broker map[string]time.Duration // nil: it reports nothing
		keep   store.Retention          // stored in the database
		o      inbox.Options
		want   string // in the error; "": it starts
		logs   string // "": none
	}{
		"defaults": {map[string]time.Duration{"orders": 14 * days}, store.Retention{},
			inbox.Options{}, "", ""},
		"never maintained": {map[string]time.Duration{"orders": 24 * days}, store.Retention{},
			inbox.Options{}, "31 days, in which a message of topic orders may come", ""},
		"broker": {map[string]time.Duration{"orders": 14 * days}, store.Retention{Marks: 20 * days},
			inbox.Options{}, "marks are kept 20 days, less than 21 days", ""},
		"kept longer": {map[string]time.Duration{"orders": 24 * days}, store.Retention{Marks: 31 * days},
			inbox.Options{}, "", ""},
		"its own retention": {map[string]time.Duration{"orders": 14 * days}, store.Retention{},
			inbox.Options{Retention: inbox.Retention{Keep: &store.Retention{Marks: 20 * days}}},
			"marks are kept 20 days", ""},
		"Window.Broker": {map[string]time.Duration{"orders": 24 * days}, store.Retention{},
			inbox.Options{Retention: inbox.Retention{Window: inbox.Window{Broker: days}}}, "", ""},
		"the user's number": {nil, store.Retention{},
			inbox.Options{Retention: inbox.Retention{Window: inbox.Window{Broker: 24 * days}}}, "31 days",
			""},
		"unknown to the broker": {nil, store.Retention{}, inbox.Options{}, "", ""},
		"no right to ask": {map[string]time.Duration{}, store.Retention{}, inbox.Options{}, "",
			"does not report how long"},
		"forever": {map[string]time.Duration{"orders": broker.Forever}, store.Retention{},
			inbox.Options{}, "", "keeps messages forever"},
		"outbox, forever": {map[string]time.Duration{"orders": broker.Forever}, store.Retention{},
			inbox.Options{Retention: inbox.Retention{Window: inbox.Window{Outbox: 31 * days}}},
			"31 days, in which a message may leave the outbox", ""},
		"outbox": {nil, store.Retention{},
			inbox.Options{Retention: inbox.Retention{Window: inbox.Window{Outbox: 31 * days}}},
			"31 days, in which a message may leave the outbox", ""},
		"retries": {nil, store.Retention{}, inbox.Options{Retry: inbox.Retry{Age: 31 * days}},
			"31 days, in which a failing message", ""},
		"saga": {nil, store.Retention{},
			inbox.Options{Retention: inbox.Retention{Window: inbox.Window{Saga: 31 * days}}},
			"31 days, in which a saga", ""},
		"dead letters": {nil, store.Retention{},
			inbox.Options{Retention: inbox.Retention{Window: inbox.Window{Dead: 31 * days}}},
			"31 days, in which a dead letter", ""},
		"all the same": {nil, store.Retention{},
			inbox.Options{Retention: inbox.Retention{Window: inbox.Window{Dead: 31 * days, Saga: 40 * days,
				AllowShort: true}}},
			"", "marks are kept too briefly"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			if c.keep != (store.Retention{}) {
				if _, err := w.db.Maintain(t.Context(), store.Maintain{Keep: c.keep}); err != nil {
					t.Fatal(err)
				}
			}
			bus := broker.Subscriber(w.bus)
			if c.broker != nil {
				bus = &keeper{Broker: w.bus, keeps: c.broker}
			}
			var log bytes.Buffer
			c.o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			in := inbox.New(w.db, bus, "stock", &c.o)
			inbox.On(in, said, func(context.Context, tx, skald.Received[string]) error { return nil })
			for range 2 {
				_, err := in.Step(t.Context())
				var refused *store.RetentionError
				if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &refused) ||
					!store.Incurable(err) || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("it ends with %v, want %q", err, c.want)
				}
				if err != nil && (!strings.Contains(err.Error(), "Window.AllowShort") ||
					strings.Contains(err.Error(), "\n")) {
					t.Errorf("it says %q", err)
				}
			}
			said := slices.DeleteFunc(strings.SplitAfter(log.String(), "\n"), func(line string) bool {
				return line == "" || strings.Contains(line, `"inbox: consuming"`) ||
					strings.Contains(line, `"inbox: ready"`)
			})
			if c.logs == "" && len(said) > 0 || !strings.Contains(log.String(), c.logs) || len(said) > 2 {
				t.Errorf("the log has %q, want %q once", said, c.logs)
			}
		})
	}
}

// If the broker is unavailable at the start, the consumer waits for it. After an answer it does not ask
// again.
func TestWindowWaitsForTheBroker(t *testing.T) {
	w := newWorld(t, 1)
	bus := &keeper{Broker: w.bus, away: broker.ErrUnavailable}
	in := inbox.New(w.db, bus, "stock", &inbox.Options{Logger: slog.New(slog.DiscardHandler)})
	inbox.On(in, said, func(context.Context, tx, skald.Received[string]) error { return nil })
	if _, err := in.Step(t.Context()); !errors.Is(err, broker.ErrUnavailable) || store.Incurable(err) {
		t.Errorf("while the broker is away: %v", err)
	}
	bus.away = nil
	for range 3 {
		if _, err := in.Step(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if bus.asked != 2 {
		t.Errorf("it was asked %d times", bus.asked)
	}
}

// maintainer counts calls of Maintain.
type maintainer struct {
	*memstore.Store
	asked, maintained atomic.Int32
}

func (e *maintainer) Maintain(ctx context.Context, m store.Maintain) (store.Maintained, error) {
	defer e.asked.Add(1)
	did, err := e.Store.Maintain(ctx, m)
	if !did.Other && !m.Leave {
		e.maintained.Add(1)
	}
	return did, err
}

// One of several instances deletes expired rows. When it stops, the next one that starts does; when it
// dies, the next one does after its lease.
func TestOneInstanceDeletesExpiredRows(t *testing.T) {
	w := newWorld(t, 1)
	begin := func(session *memstore.Store) (*maintainer, func() error) {
		e := &maintainer{Store: session}
		return e, run(t, w.over(e, &inbox.Options{Retention: inbox.Retention{Keep: &store.Retention{}}},
			func(context.Context, tx, skald.Received[string]) error { return nil }))
	}
	one, stop := begin(w.db)
	until(t, "the first one deletes rows", func() bool { return one.maintained.Load() > 0 })
	second := w.db.Session()
	two, _ := begin(second)
	until(t, "the second one asks", func() bool { return two.asked.Load() > 0 })
	if err := stop(); err != nil {
		t.Error(err)
	}
	third := w.db.Session()
	three, _ := begin(third)
	until(t, "the third one deletes rows", func() bool { return three.maintained.Load() > 0 })
	third.Kill()
	four, stopFour := begin(w.db.Session())
	until(t, "the fourth one asks", func() bool { return four.asked.Load() > 0 })
	if err := stopFour(); err != nil {
		t.Error(err)
	}
	w.pass(time.Hour)
	five, _ := begin(w.db.Session())
	until(t, "the fifth one deletes rows", func() bool { return five.maintained.Load() > 0 })
	if two.maintained.Load() != 0 || four.maintained.Load() != 0 {
		t.Errorf("instances without the lease deleted rows: %d, %d",
			two.maintained.Load(), four.maintained.Load())
	}
}
