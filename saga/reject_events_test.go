package saga_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

var (
	refusals = skald.Event[string]{Topic: "refusals", Type: "refused"}
	unnamed  = skald.Event[string]{Topic: "a topic with spaces", Type: "refused"}
)

// TestEventsOfARejection: the events of a rejection are stored once, in each function with a transaction.
// If there is no transaction, or they cannot be encoded, the step fails with an error that names them.
func TestEventsOfARejection(t *testing.T) {
	for name, c := range map[string]struct {
		at, status, why string
		say             skald.Event[string]
		events          int
	}{
		"do":        {at: "do", status: "compensated", events: 1},
		"undo":      {at: "undo", status: "compensating", events: 1},
		"intent":    {at: "intent", status: "compensated", events: 1},
		"settle":    {at: "settle", status: "compensated", events: 1},
		"settle no": {at: "settle no", status: "compensated", events: 1},
		"request": {at: "request", status: "compensating",
			why: "return skald.Reject with them from Settle"},
		"not a name": {at: "do", say: unnamed, status: "compensated", why: "events of skald.Reject"},
		"not a name, settled": {at: "settle", say: unnamed, status: "compensating",
			why: "events of skald.Reject"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.say.Topic == "" {
				c.say = refusals
			}
			db := memstore.New(nil)
			d := refusing(c.at, func() error {
				return skald.Reject(errors.New("no"), c.say.New("k", "because"))
			})
			e := engineOf(t, db, d)
			running(t, e)
			begin(t, db, e, d, trip{ID: "a"})
			is := settled(t, db, "a")
			why := is.Error
			if !is.Stuck {
				end, err := saga.Bind(e, d).Await(t.Context(), "a")
				if why = end.Reason; err != nil {
					t.Fatal(err)
				}
			}
			if string(is.Status) != c.status || is.Stuck != (c.status == "compensating") ||
				!strings.Contains(why, c.why) {
				t.Errorf("it is %s, stuck: %v, %q", is.Status, is.Stuck, why)
			}
			rows := slices.DeleteFunc(db.Rows(),
				func(m store.Row) bool { return m.Topic != refusals.Topic })
			if len(rows) != c.events {
				t.Fatalf("%d events: %+v", len(rows), rows)
			}
			for _, m := range rows {
				if string(m.Data) != `"because"` || m.CorrelationID == "" {
					t.Errorf("event %+v", m)
				}
			}
		})
	}
}

// refusing returns a saga with one function that rejects.
func refusing(at string, no func() error) *saga.Definition[trip] {
	says := func(here string) error {
		if at == here {
			return no()
		}
		return nil
	}
	hurry := []saga.Option{saga.Retry(saga.Policy{InitialInterval: time.Millisecond, Attempts: 2}),
		saga.RetryUndo(saga.Policy{InitialInterval: time.Millisecond, Attempts: 2})}
	first := saga.Do("first", func(context.Context, tx, saga.Run[trip]) (string, error) {
		return "", says("do")
	}, func(context.Context, tx, saga.Run[trip], string) error { return says("undo") }, hurry...)
	ask := saga.CallWith("ask", saga.Request[tx, trip, string, string]{At: newBank().at,
		Intent: func(context.Context, tx, saga.Run[trip]) (string, error) { return "", says("intent") },
		Do: func(context.Context, string, string) (string, error) {
			if at == "settle no" {
				return "", skald.Reject(errors.New("refused"))
			}
			return "", says("request")
		},
		Settle: func(_ context.Context, _ tx, _ saga.Run[trip], o call.Outcome[string]) error {
			if o.Refused {
				return says("settle no")
			}
			return says("settle")
		}}, nil, append(hurry, saga.NoEffect())...)
	last := saga.Do("last", func(context.Context, tx, saga.Run[trip]) (string, error) {
		return "", skald.Reject(errors.New("it turns back at the latest here"))
	}, nil, append(hurry, saga.NoEffect())...)
	return saga.New("refusing", &saga.Options[trip]{Key: tripKey}, first, ask, last)
}

type textless struct{}

func (textless) Error() string { panic("no text") }

// TestRejectionWithoutAReasonFails: a rejection without a usable reason is an ordinary failure of its
// function.
func TestRejectionWithoutAReasonFails(t *testing.T) {
	for name, no := range map[string]error{
		"nil":         &skald.RejectedError{},
		"nil pointer": (*skald.RejectedError)(nil),
		"wrapped":     fmt.Errorf("charge: %w", (*skald.RejectedError)(nil)),
		"textless":    &skald.RejectedError{Err: textless{}},
	} {
		for at, status := range map[string]string{"do": "compensated", "undo": "compensating",
			"intent": "compensated", "request": "compensating", "settle": "compensating",
			"settle no": "compensating"} {
			t.Run(name+" "+at, func(t *testing.T) {
				t.Parallel()
				var calls atomic.Int64
				db := memstore.New(nil)
				d := refusing(at, func() error { calls.Add(1); return no })
				e := engineOf(t, db, d)
				running(t, e)
				begin(t, db, e, d, trip{ID: "a"})
				is := settled(t, db, "a")
				if string(is.Status) != status || calls.Load() < 2 {
					t.Errorf("it is %s after %d attempts: %q", is.Status, calls.Load(), is.Error)
				}
			})
		}
	}
}
