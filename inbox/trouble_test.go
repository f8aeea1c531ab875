package inbox

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

func logger(text *strings.Builder) *slog.Logger { return slog.New(slog.NewTextHandler(text, nil)) }

// A message is listed and logged at the third outage in a row. It is not listed after it ended, when
// another instance has it, or after a long time without an attempt.
func TestOutagesThatLastAreListed(t *testing.T) {
	var log strings.Builder
	m, l, now := newTroubledMessages(logger(&log)), partition.New("orders/0"), time.Now()
	e := l.Add(broker.Delivery{Message: skald.Message{ID: "m-1", Topic: "orders"}, Partition: l.Name})
	e.Given = store.Identity{Source: "/shop", ID: "m-1"}
	out := exec.Result{Entry: e, What: decide.Outage, Err: errors.New("refused\nby the firewall")}
	note := func(times int) {
		for range times {
			m.Note(t.Context(), out, now)
		}
	}
	if note(2); len(m.Lasting(now)) != 0 || log.Len() > 0 {
		t.Errorf("two are listed or logged: %v, %s", m.Lasting(now), &log)
	}
	note(1)
	if all := m.Lasting(now); len(all) != 1 || all[0].Attempts != 3 || all[0].Error != "refused" ||
		all[0].ID != "m-1" {
		t.Errorf("listed are %+v", all)
	}
	if n := strings.Count(log.String(), "waits for an outage"); n != 1 {
		t.Errorf("logged %d times: %s", n, &log)
	}
	m.Note(t.Context(), exec.Result{Entry: e, What: decide.Again}, now)
	if m.Attempts(e.Given) != 3 {
		t.Error("a result without information ends it")
	}
	if m.Note(t.Context(), exec.Result{Entry: e, What: decide.Handled}, now); len(m.Lasting(now)) != 0 {
		t.Error("it is listed though it was handled")
	}
	if note(3); len(m.Lasting(now.Add(forgotten+time.Second))) != 0 {
		t.Error("it is listed though no attempt was made for long")
	}
	note(3)
	if l.Lost = true; len(m.Lasting(now)) != 0 {
		t.Error("it is listed though another instance has it")
	}
}

// An operation that fails twice in a row is listed and logged, and its next success is logged.
func TestWorkThatFailsIsListed(t *testing.T) {
	var log strings.Builder
	w, now := newStoreWork(logger(&log)), time.Now()
	if w.Did(t.Context(), "claim", errors.New("away\nfor now"), true, now); len(w.Lasting()) != 0 {
		t.Error("the first failure is listed")
	}
	w.Did(t.Context(), "claim", errors.New("away\nfor now"), true, now)
	w.Did(t.Context(), "claim", errors.New("away\nfor now"), true, now)
	if all := w.Lasting(); len(all) != 1 || all[0].Times != 3 || all[0].Error != "away; for now" {
		t.Errorf("listed are %+v", all)
	}
	w.Did(t.Context(), "claim", nil, false, now)
	if len(w.Lasting()) != 0 || strings.Count(log.String(), "fails repeatedly") != 1 ||
		!strings.Contains(log.String(), "succeeds again") {
		t.Errorf("listed are %v; the log has %s", w.Lasting(), &log)
	}
}
