package flow

import (
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

// A Compensation is what undoes a saga by hand: the events that the flow declares for the steps that took
// effect. See operate.Compensate.
type Compensation struct {
	Flow, Key, State string
	Steps            []Name          // whose undo is asked for now
	Events           []skald.Message // that ask for it
	Before           []Asked         // was asked for before, and is not reported yet
	Refused          []string        // steps that nothing undoes, and why: then there are no Events
	// the row of the saga that says so: to be saved in the transaction that publishes Events
	Row store.Tracked
}

// Compensate says what undoes the saga of a row at now. Again asks once more for what was asked for before.
func Compensate(row store.Tracked, now time.Time, again bool) (c Compensation, err error) {
	c = Compensation{Flow: row.Flow, Key: row.Key, State: row.State}
	b, err := bodyOf(&row)
	if err != nil {
		return c, err
	}
	c.Refused = b.stays()
	for _, n := range b.Standing.Undo {
		i := slices.IndexFunc(b.Asked, func(a Asked) bool { return a.Step == n })
		var before []ID
		if i >= 0 && !again {
			before = b.Asked[i].Of
			if step, _ := b.Seen.find(n); !step.beyond(before) {
				c.Before = append(c.Before, b.Asked[i])
				continue
			}
		}
		events, refused, err := b.questions(n, before, now)
		switch {
		case err != nil:
			return c, fmt.Errorf("flow %s: the row of saga %s cannot be read: %w", row.Flow, row.Key, err)
		case refused != "":
			c.Refused = append(c.Refused, refused)
			continue
		}
		b.noteAsked(n, now, events, again)
		c.Steps, c.Events = append(c.Steps, n), append(c.Events, events...)
	}
	if len(c.Refused) > 0 {
		c.Steps, c.Events = nil, nil
		return c, nil
	}
	b.Standing.ask(b.Asked)
	c.Row = row
	return c, b.into(&c.Row)
}

// stays says of which steps that took effect the flow declares no undo.
func (b *body) stays() (out []string) {
	for _, n := range b.Standing.Stays {
		out = append(out, fmt.Sprintf("%s took effect, and the flow declares no undo of it", n))
	}
	return out
}

// refused says why Compensate would undo nothing.
func (b *body) refused() []string {
	out := b.stays()
	for _, n := range b.Standing.Undo {
		if slices.ContainsFunc(b.Asked, func(a Asked) bool { return a.Step == n }) {
			continue
		}
		if _, why, err := b.questions(n, nil, time.Time{}); err == nil && why != "" {
			out = append(out, why)
		}
	}
	return out
}

// beyond tells whether the step came with a message that is not among those.
func (s Step) beyond(those []ID) bool {
	return slices.ContainsFunc(s.IDs, func(id ID) bool { return !slices.Contains(those, id) })
}

// questions are the events that ask for the undo of a step, but for its messages before, ready to be
// published; or why there are none.
func (b *body) questions(n Name, before []ID,
	now time.Time) (out []skald.Message, refused string, err error) {
	step, _ := b.Seen.find(n)
	if step.More {
		return nil,
			fmt.Sprintf(
				"%s came more than %d times, and the tracker keeps no more: undo it by skald outbox write", n,
				maxIDs), nil
	}
	for _, q := range b.Seen.Asks {
		if q.Name != n || slices.Contains(before, q.ID) {
			continue
		}
		if q.Broken != "" {
			return nil, fmt.Sprintf("%s: the event that asks for its undo could not be built: %s", n,
				q.Broken), nil
		}
		m, err := column.DecodeMessage(q.Event)
		if err != nil {
			return nil, "", err
		}
		m.Time = now.UTC().Truncate(time.Microsecond)
		m.ID = uuid7.New(m.Time)
		out = append(out, m)
	}
	if len(out)+len(before) < len(step.IDs) {
		return nil, fmt.Sprintf("%s: the tracker has no event that asks for its undo: name one in flow.Undo, and have a new group of the tracker read "+
			"the topics again", n), nil
	}
	return out, "", nil
}

// noteAsked notes that the undo of a step is asked for. What was asked for before stays due, unless it is
// asked for again.
func (b *body) noteAsked(n Name, at time.Time, events []skald.Message, again bool) {
	step, _ := b.Seen.find(n)
	a := Asked{Step: n, At: at.UTC().Truncate(time.Microsecond), Of: step.IDs}
	var ids []string
	for i := range events {
		ids = append(ids, events[i].ID)
	}
	if i := slices.IndexFunc(b.Asked, func(was Asked) bool { return was.Step == n }); i >= 0 {
		was := &b.Asked[i]
		if !again {
			was.IDs, was.Of = append(was.IDs, ids...), a.Of
			return
		}
		b.Standing.Waiting = slices.DeleteFunc(b.Standing.Waiting, func(w Wait) bool {
			return w.After == n && slices.Equal(w.For, was.For) && w.Since.Equal(was.At)
		})
		b.Asked = slices.Delete(b.Asked, i, i+1)
	}
	a.IDs = ids
	for _, q := range b.Seen.Asks {
		if q.Name != n {
			continue
		}
		if a.For = q.For; q.Within > 0 {
			due := a.At.Add(q.Within)
			a.Due = &due
		}
	}
	b.Asked = append(b.Asked, a)
}
