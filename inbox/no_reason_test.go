package inbox_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/inbox"
)

type textless struct{}

func (textless) Error() string { panic("no text") }

// TestRejectionWithoutAReasonFails: a rejection without a reason that can be stored is a failure of its
// message, and does not end the process.
func TestRejectionWithoutAReasonFails(t *testing.T) {
	for name, err := range map[string]error{
		"nil":              skald.Reject(nil),
		"nil made by hand": &skald.RejectedError{},
		"bare nil pointer": (*skald.RejectedError)(nil),
		"nil pointer":      skald.Reject((*skald.RejectedError)(nil)),
		"no text":          skald.Reject(textless{}),
		"no text, by hand": &skald.RejectedError{Err: textless{}},
	} {
		t.Run(name, func(t *testing.T) {
			for way, on := range map[string]func(*inbox.Inbox[tx]){
				"On":      func(in *inbox.Inbox[tx]) { inbox.On(in, said, refuses(err)) },
				"OnBatch": func(in *inbox.Inbox[tx]) { inbox.OnBatch(in, said, refusesSecond(err)) },
				"Intent":  func(in *inbox.Inbox[tx]) { inbox.OnCall(in, said, failingCall("Intent", err)) },
				"Do":      func(in *inbox.Inbox[tx]) { inbox.OnCall(in, said, failingCall("Do", err)) },
				"Settle":  func(in *inbox.Inbox[tx]) { inbox.OnCall(in, said, failingCall("Settle", err)) },
			} {
				w := newWorld(t, 1)
				in := inbox.New(w.db, w.bus, "stock", &inbox.Options{Now: w.clock, Batch: 8,
					Retry: inbox.Retry{Attempts: 2}, Logger: slog.New(slog.DiscardHandler)})
				on(in)
				w.publish(w.message("a", "ok"), w.message("k", "no"), w.message("l", "ok"))
				for range 8 {
					w.quiet(in)
					w.pass(time.Minute)
				}
				dead := w.dead()
				if len(dead) != 1 || string(dead[0].Message.Data) != `"no"` || dead[0].Attempts != 2 {
					t.Errorf("%s: dead letters %+v", way, dead)
				}
				w.expect("a", "ok")
				w.expect("l", "ok")
			}
		})
	}
}

func refuses(err error) func(context.Context, tx, skald.Received[string]) error {
	return func(_ context.Context, tx tx, m skald.Received[string]) error {
		if m.Value == "no" {
			return err
		}
		return note(tx, string(m.Key), m.Value)
	}
}

// refusesSecond is a batch handler that refuses one message, and names it.
func refusesSecond(err error) func(context.Context, tx, []skald.Received[string]) error {
	return func(_ context.Context, tx tx, ms []skald.Received[string]) error {
		for i, m := range ms {
			if m.Value == "no" {
				return inbox.FailMessage(i, err)
			}
			if bad := note(tx, string(m.Key), m.Value); bad != nil {
				return bad
			}
		}
		return nil
	}
}

// failingCall is a call with one phase that returns err for the message "no".
func failingCall(phase string, err error) outsideCall {
	at := func(now, value string) error {
		if now == phase && strings.HasSuffix(value, "no") {
			return err
		}
		return nil
	}
	c := (&bank{}).call()
	c.LookUp, c.Cancel = nil, nil
	c.Intent = func(_ context.Context, _ tx, m skald.Received[string]) (string, string, error) {
		return m.Value, m.ID, at("Intent", m.Value)
	}
	c.Do = func(_ context.Context, req, _ string) (string, error) { return req, at("Do", req) }
	c.Settle = func(_ context.Context, tx tx, m skald.Received[string], o call.Outcome[string]) error {
		if err := at("Settle", m.Value); err != nil {
			return err
		}
		if o.Refused {
			return errors.New("refused: " + o.Reason)
		}
		return note(tx, string(m.Key), o.Value)
	}
	return c
}

// A refusal of Do, which is outside of any transaction, publishes no events. With events the message
// becomes a dead letter, with the remedy in its error.
func TestEventsOfARefusalOutsideAreNamed(t *testing.T) {
	w := newWorld(t, 1)
	err := skald.Reject(errors.New("no money"), skald.Draft{Topic: "orders", Type: "refused"})
	in := inbox.New(w.db, w.bus, "stock", &inbox.Options{Now: w.clock, Logger: slog.New(slog.DiscardHandler)})
	inbox.OnCall(in, said, failingCall("Do", err))
	w.publish(w.message("k", "no"))
	w.quiet(in)
	dead := w.dead()
	if len(dead) != 1 || !strings.Contains(dead[0].Last.Why, "return skald.Reject with them from Settle") {
		t.Errorf("dead letters %+v", dead)
	}
	if rows := w.db.Rows(); len(rows) > 0 {
		t.Errorf("said %+v", rows)
	}
}
