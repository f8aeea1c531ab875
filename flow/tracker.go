package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// Options has the options of a Tracker. The zero value works.
type Options struct {
	// Key returns the key of the saga of a message: text without NUL, of 1 to 1,024 bytes. Default: the
	// message's correlation ID.
	Key func(skald.Message) string
	Now func() time.Time // default time.Now
}

// Tracker stores a row for each saga of a flow, in the transactions of an inbox. It needs a separate inbox,
// which is another consumer group on the topics of the flow.
type Tracker[TTx any] struct {
	flow *Flow
	db   store.Tracker[TTx]
	o    Options
}

// NewTracker returns a tracker of f. The tracker stores its rows in db, the database of the inbox.
func NewTracker[TTx any](f *Flow, db store.Tracker[TTx], o *Options) *Tracker[TTx] {
	t := &Tracker[TTx]{flow: f, db: db}
	if o != nil {
		t.o = *o
	}
	if t.o.Key == nil {
		t.o.Key = func(m skald.Message) string { return m.CorrelationID }
	}
	if t.o.Now == nil {
		t.o.Now = time.Now
	}
	return t
}

// On registers the tracker in an inbox for all events of the flow. The tracker does not receive other types
// of the same topics. To record such a type as drift, call HandleBatch(topic, t.Handle, typ) on the inbox.
func (t *Tracker[TTx]) On(consumer *inbox.Inbox[TTx]) {
	types := map[string][]string{}
	for _, n := range t.flow.Events() {
		types[n.Topic] = append(types[n.Topic], n.Type)
	}
	for topic := range types {
		consumer.HandleBatch(topic, t.Handle, types[topic]...)
	}
}

// Handle records messages in the rows of their sagas. It makes two round trips, regardless of the number of
// messages. A message may arrive late, repeatedly, or before its causes. A message without a valid key
// becomes a dead letter.
func (t *Tracker[TTx]) Handle(ctx context.Context, tx TTx, ms []skald.Message) error {
	var keys []string
	at := make(map[string][]int, len(ms)) // by key; indexes of the messages
	for i := range ms {
		key, err := t.key(&ms[i])
		if err != nil {
			return inbox.FailMessage(i, err)
		}
		if at[key] == nil {
			keys = append(keys, key)
		}
		at[key] = append(at[key], i)
	}
	rows, err := t.db.LockTracked(ctx, tx, t.flow.name, keys...)
	if err != nil {
		return err
	}
	changed := rows[:0]
	for _, row := range rows {
		was := row.Body
		if err := t.note(ctx, &row, ms, at[row.Key]); err != nil {
			return err
		}
		if row.Body != was {
			changed = append(changed, row)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return t.db.Write(ctx, tx, store.Effect{Tracked: changed})
}

// key returns the key of the saga of m.
func (t *Tracker[TTx]) key(m *skald.Message) (string, error) {
	key := t.o.Key(*m)
	if key == "" || len(key) > maxName || !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return "",
			skald.Permanent(
				fmt.Errorf(
					"flow %s: the key of %s is %.40q: it needs text of 1 to %d bytes; set flow.Options.Key, "+
						"since only messages written by Skald have a correlation id", t.flow.name, m.Type,
					key, maxName))
	}
	return key, nil
}

// note records the messages of ms that belong to the saga of the row. The argument indexes has the indexes
// of these messages in ms.
func (t *Tracker[TTx]) note(ctx context.Context, row *store.Tracked, ms []skald.Message,
	indexes []int) error {
	var was seen // the stored state is not read, because note computes it again
	if row.Body != "" {
		if err := json.Unmarshal([]byte(row.Body), &was); err != nil {
			return unreadable(row, err)
		}
	}
	for _, i := range indexes {
		m, at := &ms[i], t.o.Now().UTC()
		if !m.Time.IsZero() && m.Time.Before(at) {
			at = m.Time.UTC()
		}
		was.Seen.add(t.flow, Name{Topic: m.Topic, Type: m.Type}, ID{Source: m.Source, ID: m.ID}, m.Key,
			at.Truncate(time.Microsecond))
		was.Seen.trace(m.TraceParent, at.Truncate(time.Microsecond))
		if err := was.Seen.ask(ctx, t.flow, m); err != nil {
			return inbox.FailMessage(i, err)
		}
	}
	state := t.flow.stateOf(&was.Seen)
	state.ask(was.Asked)
	row.Drift = len(state.Drift)
	return (&body{seen: was, Saga: state}).storeIn(row)
}

// body is the content of a saga's row. It has the state in addition to the recorded events, so that readers
// do not need the flow. It omits fields that are in other columns or in the events.
type body struct {
	seen
	Saga SagaState `json:"saga"`
}

type seen struct {
	Seen  record  `json:"seen"`
	Asked []Asked `json:"asked,omitempty"` // all undos that an operator requested
}

// storeIn stores b in the row.
func (b *body) storeIn(row *store.Tracked) error {
	stored := *b
	s := &stored.Saga
	s.Flow, s.State, s.Steps, s.Trace, s.Due = "", "", nil, "", nil
	text, err := json.Marshal(&stored)
	if err != nil {
		return fmt.Errorf("flow %s: encode the row of saga %s: %w", row.Flow, row.Key, err)
	}
	row.State, row.Body, row.Due = b.Saga.State, string(text), time.Time{}
	if b.Saga.Due != nil {
		row.Due = *b.Saga.Due
	}
	return nil
}

// bodyOf decodes the content of a row.
func bodyOf(row *store.Tracked) (b body, err error) {
	if err := json.Unmarshal([]byte(row.Body), &b); err != nil {
		return b, unreadable(row, err)
	}
	s := &b.Saga
	s.Flow, s.Key, s.State, s.Keys = row.Flow, row.Key, row.State, b.Seen.Keys
	s.Steps, s.Trace, s.At, s.Changed = b.Seen.inTime(), b.Seen.Trace, row.At, row.Changed
	s.bound()
	return b, nil
}

func unreadable(row *store.Tracked, err error) error {
	return fmt.Errorf("flow %s: the row of saga %s cannot be read: %w", row.Flow, row.Key, err)
}

// ErrUnknown means that no event of a saga is recorded.
var ErrUnknown = errors.New("no tracker has recorded an event of this saga")

// Find returns the states of the sagas of a key, one for each flow. It returns ErrUnknown if there are none.
func Find(ctx context.Context, db store.Lister, key string) ([]SagaState, error) {
	if key == "" {
		return nil, fmt.Errorf("saga %q: %w", key, ErrUnknown)
	}
	out, err := List(ctx, db, store.TrackedQuery{Key: key})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("saga %.100q: %w", key, ErrUnknown)
	}
	return out, err
}

// List returns the states of sagas, ordered by key and flow.
func List(ctx context.Context, db store.Lister, q store.TrackedQuery) ([]SagaState, error) {
	rows, err := store.ListTracked(ctx, db, q)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	late := rows
	if !q.Overdue {
		q.Overdue = true // computed with the database's clock
		if late, err = store.ListTracked(ctx, db, q); err != nil {
			return nil, err
		}
	}
	overdue := map[[2]string]bool{}
	for i := range late {
		overdue[[2]string{late[i].Flow, late[i].Key}] = true
	}
	out := make([]SagaState, 0, len(rows))
	for i := range rows {
		b, err := bodyOf(&rows[i])
		if err != nil {
			return nil, err
		}
		b.Saga.Refused = b.refused()
		b.Saga.Overdue = overdue[[2]string{rows[i].Flow, rows[i].Key}]
		out = append(out, b.Saga)
	}
	return out, nil
}
