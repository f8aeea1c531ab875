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

// maxAsk is how many bytes of data an event may have that asks for an undo: it lies in the row of its saga.
const maxAsk = 16 << 10

// An Ask builds the event that asks for the undo of a step, of the message that said that the step took
// effect. It is called when that message comes, and may be called again: it asks nobody, and the same message
// gives the same event.
type Ask func(ctx context.Context, step skald.Message) (skald.Draft, error)

// AskOf is an Ask by the payload of the step's event.
func AskOf[T any](step skald.Event[T], build func(skald.Received[T]) skald.Draft) Ask {
	return func(ctx context.Context, m skald.Message) (skald.Draft, error) {
		r, err := step.Decode(ctx, m)
		if err != nil {
			return skald.Draft{}, err
		}
		return build(r), nil
	}
}

// A question is an event that asks for the undo of a step, as it is kept until somebody wants it published.
type question struct {
	Name                 // of the step's event
	ID     ID            `json:"message"`
	For    []Name        `json:"for"`
	Within time.Duration `json:"within,omitempty"`
	Event  string        `json:"event,omitempty"` // without an id
	Broken string        `json:"broken,omitempty"`
}

func (q question) compare(p question) int {
	return cmp.Or(q.Name.compare(p.Name), q.ID.compare(p.ID))
}

// ask keeps the event that asks for the undo of what m tells, if the flow declares one.
func (r *record) ask(ctx context.Context, f *Flow, m *skald.Message) error {
	n := Name{Topic: m.Topic, Type: m.Type}
	rule, there := f.undoOf(n)
	if !there || rule.ask == nil {
		return nil
	}
	q := question{Name: n, ID: ID{Source: m.Source, ID: m.ID}, For: rule.events, Within: rule.within}
	switch text, err := asked(ctx, rule.ask, m); {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && failure.Of(err) == failure.Outage: // a registry is away, perhaps
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

// asked is the event, without what would differ each time that m comes.
func asked(ctx context.Context, ask Ask, m *skald.Message) (text string, err error) {
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
			fmt.Errorf("the event %s that asks for the undo has %d bytes, at most %d are kept in the row of a saga: have it name what is to be undone",
				d.Type, len(ms[0].Data), maxAsk)
	}
	ms[0].TraceParent = m.TraceParent
	return column.EncodeMessage(&ms[0])
}

// cut is the first KiB of an error.
func cut(why string) string {
	return strings.ToValidUTF8(why[:min(len(why), maxName)], "\ufffd")
}

// An Asked is a step of which an operator asked for the undo.
type Asked struct {
	Step Name       `json:"step"`
	For  []Name     `json:"for"` // which tells that it is done
	At   time.Time  `json:"at"`
	Due  *time.Time `json:"due,omitempty"`
	IDs  []string   `json:"messages"` // of the events that ask for it
	Of   []ID       `json:"of"`       // the step's messages whose effect they undo
}
