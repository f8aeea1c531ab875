package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// Orders of operators reach running processes through the database: pause, resume, skip. The audit has the
// operator.
func TestOperatorsPauseResumeAndSkip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		bad := true
		in := w.inbox(&inbox.Options{Breaker: inbox.Breaker{Least: 10, Rest: time.Hour}},
			func(ctx context.Context, tx tx, m skald.Received[string]) error {
				if bad && m.Value == "bad" {
					return errors.New("no such warehouse")
				}
				return keep(ctx, tx, m)
			})
		stop := run(t, in)
		w.publish(w.message("k", "1"))
		handled := func(list, want string) func() bool {
			return func() bool { return w.db.User()[list] == want }
		}
		untilFor(t, time.Minute, "the first", handled("k", "1"))
		ctx, note := t.Context(), operate.Order{Author: "ann", Reason: "the warehouse moves"}
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		ok(operate.PauseInbox(ctx, w.db, "stock", note))
		untilFor(t, 10*time.Second, "it is paused", func() bool { return in.Health().Stopped != "" })
		w.publish(w.message("k", "2"))
		time.Sleep(time.Minute) // simulated
		w.expect("k", "1")
		ok(operate.ResumeInbox(ctx, w.db, "stock", note))
		untilFor(t, 10*time.Second, "it continues", handled("k", "1 2"))

		for n := range 20 {
			w.publish(w.message(fmt.Sprint("b", n), "bad"))
		}
		untilFor(t, time.Minute, "the breaker",
			func() bool { return strings.Contains(in.Health().Stopped, "failed in one way") })
		ok(operate.SkipInbox(ctx, w.db, "stock", w.fingerprint(in), note))
		ok(operate.ResumeInbox(ctx, w.db, "stock", note))
		untilFor(t, time.Minute, "all are dead letters", func() bool {
			w.pass(time.Second) // now they are due by the store's clock
			return len(w.dead()) == 20
		})
		for _, p := range w.dead() {
			if p.Dead.Kind != "skipped" || p.Dead.BlocksKey {
				t.Errorf("%+v", p.Dead)
			}
		}
		audits, err := w.db.Audits(ctx, store.AuditQuery{Limit: 10})
		if err != nil || len(audits) != 4 || audits[3].Action != "pause" || audits[0].Author != "ann" ||
			audits[0].Reason != note.Reason {
			t.Errorf("%+v %v", audits, err)
		}
		bad = false
		ok(stop())
	})
}

// fingerprint returns the fingerprint of failures in the error of an open breaker.
func (w *world) fingerprint(in *inbox.Inbox[tx]) (print string) {
	w.t.Helper()
	var n, all int
	if _, err := fmt.Sscanf(in.Health().Stopped,
		"%d of %d messages failed in one way within 1m0s (fingerprint %12s", &n, &all, &print); err != nil {
		w.t.Fatal(in.Health().Stopped, err)
	}
	return print
}

// A pause outlasts restarts, on every store.
func TestPauseOutlastsARestart(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) { pauseOutlasts(t, inMemory) })
	t.Run("sqlite", func(t *testing.T) { pauseOutlasts(t, onSQLite(t)) })
	t.Run("postgres", func(t *testing.T) { pauseOutlasts(t, onPostgres(t)) })
}

func pauseOutlasts[TTx comparable](t *testing.T, opened opening[TTx]) {
	w := newWorld(t, 1)
	g := opened(w)
	step := func(n string, want string) *inbox.Inbox[TTx] {
		t.Helper()
		in := inbox.New(g.db, w.bus, "stock",
			&inbox.Options{Now: w.clock, Logger: slog.New(slog.DiscardHandler)})
		inbox.On(in, said,
			func(_ context.Context, tx TTx, m skald.Received[string]) error {
				return g.note(tx,
					"list", m.Value)
			})
		w.publish(w.message("k", n))
		w.quiet(in)
		if got := g.lists(t)["list"]; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		return in
	}
	note, ctx := operate.Order{Author: "ann", Reason: "a move"}, t.Context()
	end := func(in *inbox.Inbox[TTx], err error) {
		t.Helper()
		if err = errors.Join(err, in.Close(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	var unknown *operate.UnknownConsumerError
	if err := operate.PauseInbox(ctx, g.db, "stock", note); !errors.As(err, &unknown) {
		t.Errorf("%v", err)
	}
	in := step("1", "1")
	end(in, operate.PauseInbox(ctx, g.db, "stock", note))
	in = step("2", "1")
	if h := in.Health(); h.Ready || h.Stopped == "" {
		t.Errorf("%+v", h)
	}
	end(in, operate.ResumeInbox(ctx, g.db, "stock", note))
	end(step("3", "1 2 3"), nil)
	var usage *operate.UsageError
	if err := operate.SkipInbox(ctx, g.db, "stock", "DROP TABLE", note); !errors.As(err, &usage) {
		t.Errorf("%v", err)
	}
	if err := operate.PauseInbox(ctx, g.db, "stock", operate.Order{Author: "ann"}); !errors.As(err, &usage) {
		t.Errorf("%v", err)
	}
	if audits, err := g.db.Audits(ctx, store.AuditQuery{Limit: 10}); err != nil || len(audits) != 2 ||
		audits[1].Action != "pause" {
		t.Errorf("%+v %v", audits, err)
	}
}
