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

// Compensation describes the undo of a saga that an operator requests. Its events are those that the flow
// declares for the steps that took effect. See operate.Compensate.
type Compensation struct {
	Flow, Key, State string
	Steps            []Name          // steps with a newly requested undo
	Events           []skald.Message // events that request the undo of Steps
	Before           []Asked         // undos that were requested earlier and that no event has reported
	Refused          []string        // steps that cannot be undone, and why; then Events is empty
	// Row is the changed row of the saga. Store it in the transaction that publishes Events.
	Row store.Tracked
}

// Compensate returns the events that undo the saga of a row. The argument now is the current time. If
// repeat is true, Compensate repeats earlier requests.
func Compensate(row store.Tracked, now time.Time, repeat bool) (c Compensation, err error) {
	c = Compensation{Flow: row.Flow, Key: row.Key, State: row.State}
	b, err := bodyOf(&row)
	if err != nil {
		return c, err
	}
	c.Refused = b.stays()
	for _, n := range b.Saga.Undo {
		i := slices.IndexFunc(b.Asked, func(a Asked) bool { return a.Step == n })
		var before []ID
		if i >= 0 && !repeat {
			before = b.Asked[i].Of
			if step, _ := b.Seen.find(n); !step.hasOtherThan(before) {
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
		b.noteAsked(n, now, events, repeat)
		c.Steps, c.Events = append(c.Steps, n), append(c.Events, events...)
	}
	if len(c.Refused) > 0 {
		c.Steps, c.Events = nil, nil
		return c, nil
	}
	b.Saga.ask(b.Asked)
	c.Row = row
	return c, b.storeIn(&c.Row)
}

// stays returns a text for each step that took effect and has no declared undo.
func (b *body) stays() (out []string) {
	for _, n := range b.Saga.Stays {
		out = append(out, fmt.Sprintf("%s took effect, and the flow declares no undo of it", n))
	}
	return out
}

// refused returns the reasons for which Compensate would undo nothing.
func (b *body) refused() []string {
	out := b.stays()
	for _, n := range b.Saga.Undo {
		if slices.ContainsFunc(b.Asked, func(a Asked) bool { return a.Step == n }) {
			continue
		}
		if _, why, err := b.questions(n, nil, time.Time{}); err == nil && why != "" {
			out = append(out, why)
		}
	}
	return out
}

// hasOtherThan reports whether the step has a message that is not in ids.
func (s Step) hasOtherThan(ids []ID) bool {
	return slices.ContainsFunc(s.IDs, func(id ID) bool { return !slices.Contains(ids, id) })
}

// questions returns the events that request the undo of a step, ready to be published. It omits the
// messages in the list done. If the step cannot be undone, refused is the reason.
func (b *body) questions(n Name, done []ID,
	now time.Time) (out []skald.Message, refused string, err error) {
	step, _ := b.Seen.find(n)
	if step.More {
		return nil,
			fmt.Sprintf(
				"%s occurred more than %d times, which is the most that the tracker stores: undo it with skald outbox write", n,
				maxIDs), nil
	}
	for _, q := range b.Seen.Asks {
		if q.Name != n || slices.Contains(done, q.ID) {
			continue
		}
		if q.Broken != "" {
			return nil, fmt.Sprintf("%s: the event that requests its undo could not be built: %s", n,
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
	if len(out)+len(done) < len(step.IDs) {
		return nil, fmt.Sprintf("%s: the tracker has no event that requests its undo: give flow.Undo an Ask, and let the tracker with a new group read "+
			"the topics again", n), nil
	}
	return out, "", nil
}

// noteAsked records that an operator requested the undo of a step. An earlier request keeps its due time,
// unless repeat is true.
func (b *body) noteAsked(n Name, at time.Time, events []skald.Message, repeat bool) {
	step, _ := b.Seen.find(n)
	a := Asked{Step: n, At: at.UTC().Truncate(time.Microsecond), Of: step.IDs}
	var ids []string
	for i := range events {
		ids = append(ids, events[i].ID)
	}
	if i := slices.IndexFunc(b.Asked, func(was Asked) bool { return was.Step == n }); i >= 0 {
		was := &b.Asked[i]
		if !repeat {
			was.IDs, was.Of = append(was.IDs, ids...), a.Of
			return
		}
		b.Saga.Waiting = slices.DeleteFunc(b.Saga.Waiting, func(w Wait) bool {
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
