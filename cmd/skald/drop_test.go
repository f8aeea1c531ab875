package main_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// tillSays is a consumer that charges and refunds by calls, at a provider that has forgotten what it was
// asked: which of its messages are dead letters at their calls.
type tillSays struct {
	*bed
	bus  *membroker.Broker
	deaf map[string]bool // keys that it never answers
}

func newTill(b *bed) *tillSays {
	return &tillSays{bed: b.migrate(), bus: b.bus("orders"), deaf: map[string]bool{}}
}

// run takes what there is until done says so.
func (w *tillSays) run(what string, done func() bool) {
	w.t.Helper()
	in := inbox.New(w.s, w.bus, "till", &inbox.Options{Logger: slog.New(slog.DiscardHandler)})
	step := inbox.NewStep(in, "charge", func(m skald.Received[string]) string { return m.Value })
	how := func(prefix string) call.Call[*sql.Tx, string, string, string] {
		return call.Call[*sql.Tx, string, string, string]{
			At: call.NewProvider("bank", &call.ProviderOptions{Timeout: time.Second}),
			Intent: func(_ context.Context, _ *sql.Tx, m skald.Received[string]) (string, string, error) {
				return m.Value, prefix + m.Value, nil
			},
			Do: func(_ context.Context, _, key string) (string, error) {
				if w.deaf[key] {
					return "", skald.Permanent(errors.New("never heard of it"))
				}
				return "receipt", nil
			},
			Settle: func(_ context.Context, _ *sql.Tx, m skald.Received[string],
				o call.Outcome[string]) error {
				if w.deaf["settling "+m.Value] {
					return skald.Permanent(errors.New("no room in the ledger"))
				}
				return nil
			},
		}
	}
	inbox.DoCallOn(step, skald.Event[string]{Topic: "orders", Type: "placed"}, how(""))
	inbox.UndoCallOn(step, skald.Event[string]{Topic: "orders", Type: "cancelled"}, how("back-"))
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	until(w.t, what, done)
	cancel()
	must(w.t, <-ended)
}

// say publishes a message whose id tells its kind and its order.
func (w *tillSays) say(typ, order string) {
	w.t.Helper()
	m := skald.Message{ID: typ + "-" + order, Source: "/shop", Topic: "orders", Type: typ,
		Key: []byte(typ + order), Data: []byte(`"` + order + `"`),
		ContentType: "application/json"}
	must(w.t, w.bus.Publish(w.t.Context(), []skald.Message{m}).Wait(w.t.Context()))
}

func (w *tillSays) state(order string) (s store.StepState) {
	w.t.Helper()
	must(w.t, w.db.QueryRow("SELECT state FROM skald_step WHERE saga = $1", order).Scan(&s))
	return s
}

// Nobody asks the provider again once a letter is dropped: a compensation would wait for ever for a step at
// that call.
func TestDropAtACallOfAStep(t *testing.T) { onEachStore(t, testDropAtACallOfAStep) }

func testDropAtACallOfAStep(t *testing.T, fresh func(*testing.T) *bed) {
	w := newTill(fresh(t))
	for _, order := range []string{"a", "b", "c", "d"} {
		w.deaf[order] = order < "c"
		w.say("placed", order)
	}
	w.run("each call is settled, or its message is dead", func() bool {
		return w.count("skald_parked WHERE dead_at IS NOT NULL AND call IS NOT NULL") == 2 &&
			w.count("skald_mark") == 2
	})
	for _, json := range []bool{false, true} { // they died in any order
		p := start(t, w.env, "dead", "drop", "--all", "--dry-run", fmt.Sprint("--json=", json))
		p.expect(0)
		for _, want := range []string{map[bool]string{false: "drop: 2 of 2 messages would be done\n",
			true: `"wanted":["placed-`}[json],
			"placed-a: step charge of a is at the call a", "then give --call done or --call refused",
			"placed-b: step charge of b"} {
			if said := p.out.String(); !strings.Contains(said, want) {
				t.Errorf("a dry run has no %q: %s", want, said)
			}
		}
	}
	p := start(t, w.env, "dead", "drop", "placed-a", "--reason", "forgotten", "--yes")
	p.expect(2)
	if said := p.errs.String(); !strings.Contains(said, "step charge of a is at the call a") ||
		!strings.Contains(said, "--call refused") {
		t.Errorf("it says %s", said)
	}
	p = start(t, w.env, "dead", "drop", "placed-a", "--reason", "forgotten", "--yes", "--call", "perhaps")
	p.expect(2)
	if n := w.count("skald_parked"); n != 2 {
		t.Errorf("%d are kept, not both", n)
	}
	drop := func(id, call string, want store.StepState) {
		t.Helper()
		start(t, w.env, "dead", "drop", id, "--reason", "looked it up", "--yes", "--call", call).expect(0)
		order := id[len(id)-1:]
		if s := w.state(order); s != want {
			t.Errorf("the step of %s is %v, not %v", order, s, want)
		}
	}
	drop("placed-a", "done", store.StepDone)
	drop("placed-b", "refused", store.StepRejected)

	w.deaf["back-c"], w.deaf["back-d"] = true, true
	for _, order := range []string{"a", "b", "c", "d"} {
		w.say("cancelled", order)
	}
	w.run("what nobody answers is dead again",
		func() bool { return w.count("skald_parked WHERE dead_at IS NOT NULL AND call IS NOT NULL") == 2 })
	drop("cancelled-c", "done", store.StepUndone)
	drop("cancelled-d", "refused", store.StepDone)
	w.deaf["back-d"] = false
	w.say("cancelled", "d2") // of a step that nobody took
	w.run("all is finished",
		func() bool { return w.count("skald_mark") == 9 && w.count("skald_parked") == 0 })
	got := ""
	for _, order := range []string{"a", "b", "c", "d", "d2"} {
		got += fmt.Sprint(order, " ", w.state(order), ", ")
	}
	if want := "a undone, b barred, c undone, d done, d2 barred, "; got != want {
		t.Errorf("the steps are %s want %s", got, want)
	}
}

// What the provider has answered, and could not be written down, counts without --call.
func TestDropOfAKnownOutcome(t *testing.T) { onEachStore(t, testDropOfAKnownOutcome) }

func testDropOfAKnownOutcome(t *testing.T, fresh func(*testing.T) *bed) {
	w := newTill(fresh(t))
	w.deaf["settling a"] = true
	w.say("placed", "a")
	w.run("its message is dead",
		func() bool { return w.count("skald_parked WHERE dead_at IS NOT NULL AND call IS NOT NULL") == 1 })
	p := start(t, w.env, "dead", "drop", "--all", "--dry-run")
	p.expect(0)
	if said := p.out.String(); said != "drop: 1 of 1 messages would be done\n" {
		t.Errorf("a dry run says %s", said)
	}
	start(t, w.env, "dead", "drop", "--all", "--reason", "written by hand", "--yes").expect(0)
	if s := w.state("a"); s != store.StepDone {
		t.Errorf("its step is %v", s)
	}
}
