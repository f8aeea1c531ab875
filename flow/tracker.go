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

// Options of a Tracker. The zero value works.
type Options struct {
	// Key says which saga a message belongs to: text without NUL, of 1 to 1,024 bytes. Default: its
	// correlation id.
	Key func(skald.Message) string
	Now func() time.Time // default time.Now
}

// A Tracker keeps a row for each saga of a flow, in the transactions of an inbox. It is one more consumer
// group on the topics of the flow: give it an inbox of its own.
type Tracker[TTx any] struct {
	flow *Flow
	db   store.Tracker[TTx]
	o    Options
}

// NewTracker is a tracker of f, with its rows in db: the database of the inbox.
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

// On has in handle all events of the flow. Other types of a topic do not reach a tracker by themselves:
// in.HandleBatch(topic, t.Handle, typ) has them noted as drift.
func (t *Tracker[TTx]) On(in *inbox.Inbox[TTx]) {
	types := map[string][]string{}
	for _, n := range t.flow.Events() {
		types[n.Topic] = append(types[n.Topic], n.Type)
	}
	for topic := range types {
		in.HandleBatch(topic, t.Handle, types[topic]...)
	}
}

// Handle notes messages in the rows of their sagas, in two round trips however many they are. A message may
// come late, twice and before its causes. One without a key is a dead letter: no row could be found by it.
func (t *Tracker[TTx]) Handle(ctx context.Context, tx TTx, ms []skald.Message) error {
	var keys []string
	at := make(map[string][]int, len(ms)) // of the messages of each key
	for i := range ms {
		key, err := t.key(&ms[i])
		if err != nil {
			return inbox.Guilty(i, err)
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
	return t.db.SaveTracked(ctx, tx, changed...)
}

// key is that of the saga that m belongs to.
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

// note puts those of ms into the row that are of its saga.
func (t *Tracker[TTx]) note(ctx context.Context, row *store.Tracked, ms []skald.Message, ours []int) error {
	var was seen // how the saga stood follows from it
	if row.Body != "" {
		if err := json.Unmarshal([]byte(row.Body), &was); err != nil {
			return unreadable(row, err)
		}
	}
	for _, i := range ours {
		m, at := &ms[i], t.o.Now().UTC()
		if !m.Time.IsZero() && m.Time.Before(at) {
			at = m.Time.UTC()
		}
		was.Seen.add(t.flow, Name{Topic: m.Topic, Type: m.Type}, ID{Source: m.Source, ID: m.ID}, m.Key,
			at.Truncate(time.Microsecond))
		was.Seen.trace(m.TraceParent, at.Truncate(time.Microsecond))
		if err := was.Seen.ask(ctx, t.flow, m); err != nil {
			return inbox.Guilty(i, err)
		}
	}
	stands := t.flow.stand(&was.Seen)
	stands.ask(was.Asked)
	row.Drift = len(stands.Drift)
	return (&body{seen: was, Standing: stands}).into(row)
}

// A body is what the row of a saga holds. How it stands is stored with what was seen, so that who reads it
// need not know the flow: without what the row or what was seen says.
type body struct {
	seen
	Standing Standing `json:"standing"`
}

type seen struct {
	Seen  record  `json:"seen"`
	Asked []Asked `json:"asked,omitempty"` // every undo that an operator asked for
}

// into puts b into the row.
func (b *body) into(row *store.Tracked) error {
	stored := *b
	s := &stored.Standing
	s.Flow, s.State, s.Steps, s.Trace, s.Due = "", "", nil, "", nil
	text, err := json.Marshal(&stored)
	if err != nil {
		return fmt.Errorf("flow %s: encode the row of saga %s: %w", row.Flow, row.Key, err)
	}
	row.State, row.Body, row.Due = b.Standing.State, string(text), time.Time{}
	if b.Standing.Due != nil {
		row.Due = *b.Standing.Due
	}
	return nil
}

// bodyOf is what a row holds.
func bodyOf(row *store.Tracked) (b body, err error) {
	if err := json.Unmarshal([]byte(row.Body), &b); err != nil {
		return b, unreadable(row, err)
	}
	s := &b.Standing
	s.Flow, s.Key, s.State, s.Keys = row.Flow, row.Key, row.State, b.Seen.Keys
	s.Steps, s.Trace, s.At, s.Changed = b.Seen.inTime(), b.Seen.Trace, row.At, row.Changed
	s.bound()
	return b, nil
}

func unreadable(row *store.Tracked, err error) error {
	return fmt.Errorf("flow %s: the row of saga %s cannot be read: %w", row.Flow, row.Key, err)
}

// ErrUnknown is returned where no tracker has heard of a saga.
var ErrUnknown = errors.New("no tracker has heard of it")

// Find tells how the sagas of a key stand, by flow: one of each flow. ErrUnknown: there is none.
func Find(ctx context.Context, db store.Lister, key string) ([]Standing, error) {
	if key == "" {
		return nil, fmt.Errorf("saga %q: %w", key, ErrUnknown)
	}
	out, err := List(ctx, db, store.TrackedQuery{Key: key})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("saga %.100q: %w", key, ErrUnknown)
	}
	return out, err
}

// List tells how sagas stand, by key and flow.
func List(ctx context.Context, db store.Lister, q store.TrackedQuery) ([]Standing, error) {
	rows, err := store.ListTracked(ctx, db, q)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	late := rows
	if !q.Overdue {
		q.Overdue = true // by the clock of the store
		if late, err = store.ListTracked(ctx, db, q); err != nil {
			return nil, err
		}
	}
	overdue := map[[2]string]bool{}
	for i := range late {
		overdue[[2]string{late[i].Flow, late[i].Key}] = true
	}
	out := make([]Standing, 0, len(rows))
	for i := range rows {
		b, err := bodyOf(&rows[i])
		if err != nil {
			return nil, err
		}
		b.Standing.Refused = b.refused()
		b.Standing.Overdue = overdue[[2]string{rows[i].Flow, rows[i].Key}]
		out = append(out, b.Standing)
	}
	return out, nil
}
