package flow

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/internal/complete"
)

// maxAsk limits the bytes of the data of an event that requests an undo, because the saga's row stores this
// event.
const maxAsk = 16 << 10

// Ask builds the event that requests the undo of a step, from the message that reported the step. The tracker
// calls Ask when this message arrives, and may call it again. Ask must return the same event for the same
// message, so it must not query other systems.
type Ask func(ctx context.Context, step skald.Message) (skald.Draft, error)

// AskOf returns an Ask that decodes the payload of the step's event.
func AskOf[T any](step skald.Event[T], build func(skald.Received[T]) skald.Draft) Ask {
	return func(ctx context.Context, m skald.Message) (skald.Draft, error) {
		r, err := step.Decode(ctx, m)
		if err != nil {
			return skald.Draft{}, err
		}
		return build(r), nil
	}
}

// question is the event that requests the undo of a step. The saga's row stores it. An operator may have it
// published later.
type question struct {
	Name                 // name of the step's event
	ID     ID            `json:"message"`
	For    []Name        `json:"for"` // events that report the undo
	Within time.Duration `json:"within,omitempty"`
	Event  string        `json:"event,omitempty"`  // the encoded message, without an id
	Broken string        `json:"broken,omitempty"` // why the event could not be built
}

func (q question) compare(p question) int {
	return cmp.Or(q.Name.compare(p.Name), q.ID.compare(p.ID))
}

// ask stores the event that requests the undo of the step that m reports, if the flow declares an Ask for it.
func (r *record) ask(ctx context.Context, f *Flow, m *skald.Message) error {
	n := Name{Topic: m.Topic, Type: m.Type}
	rule, there := f.undoOf(n)
	if !there || rule.ask == nil {
		return nil
	}
	q := question{Name: n, ID: ID{Source: m.Source, ID: m.ID}, For: rule.events, Within: rule.within}
	switch text, err := encodeAsk(ctx, rule.ask, m); {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && failure.Of(err) == failure.Outage: // for example a schema registry is down: try again
		return err
	case err != nil:
		q.Broken = cut(err.Error())
	default:
		q.Event = text
	}
	i, there := slices.BinarySearchFunc(r.Asks, q, question.compare)
	if there {
		r.Asks[i] = q
	} else {
		r.Asks = slices.Insert(r.Asks, i, q)
	}
	step, _ := r.find(n)
	r.Asks = slices.DeleteFunc(r.Asks,
		func(q question) bool { return q.Name == n && !slices.Contains(step.IDs, q.ID) })
	return nil
}

// encodeAsk returns the encoded event. The event has no id, and it has the time of m, so that each call
// returns the same text.
func encodeAsk(ctx context.Context, ask Ask, m *skald.Message) (text string, err error) {
	defer failure.Recover(&err)
	d, err := ask(ctx, *m)
	if err != nil {
		return "", err
	}
	by := complete.Completer{Now: func() time.Time { return m.Time },
		NewID: func(time.Time) string { return "" }}
	ms, err := by.Messages(skald.WithCause(ctx, *m), []skald.Draft{d})
	if err != nil {
		return "", err
	}
	if len(ms[0].Data) > maxAsk {
		return "",
			fmt.Errorf("the event %s that requests the undo has %d bytes, and the row of a saga stores at most %d: put a reference into the event",
				d.Type, len(ms[0].Data), maxAsk)
	}
	ms[0].TraceParent = m.TraceParent
	return column.EncodeMessage(&ms[0])
}

// cut limits the text of an error to 1 KiB.
func cut(why string) string {
	return strings.ToValidUTF8(why[:min(len(why), maxName)], "\ufffd")
}

// Asked is a step with an undo that an operator requested.
type Asked struct {
	Step Name       `json:"step"`
	For  []Name     `json:"for"` // events that report the undo
	At   time.Time  `json:"at"`
	Due  *time.Time `json:"due,omitempty"`
	IDs  []string   `json:"messages"` // ids of the events that request the undo
	Of   []ID       `json:"of"`       // messages of the step that these events undo
}
