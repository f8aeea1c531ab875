package flow

import (
	"cmp"
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
// in.Handle(topic, typ, t.Handle) has them noted as drift.
func (t *Tracker[TTx]) On(in *inbox.Inbox[TTx]) {
	for _, n := range t.flow.Events() {
		in.Handle(n.Topic, n.Type, t.Handle)
	}
}

// Handle notes m in the row of its saga. A message may come late, twice and before its causes. One without a
// key is a dead letter: no row could be found by it.
func (t *Tracker[TTx]) Handle(ctx context.Context, tx TTx, m skald.Message) error {
	key := t.o.Key(m)
	if key == "" || len(key) > maxName || !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return skald.Permanent(fmt.Errorf("flow %s: the key of %s is %.40q: it needs text of 1 to %d bytes; set flow.Options.Key, "+
			"since only messages written by Skald have a correlation id", t.flow.name, m.Type, key, maxName))
	}
	row, err := t.db.LockTracked(ctx, tx, t.flow.name, key)
	if err != nil {
		return err
	}
	var was body
	if row.Body != "" {
		if err := json.Unmarshal([]byte(row.Body), &was); err != nil {
			return fmt.Errorf("flow %s: the row of saga %s cannot be read: %w", t.flow.name, key, err)
		}
	}
	at := t.o.Now().UTC()
	if !m.Time.IsZero() && m.Time.Before(at) {
		at = m.Time.UTC()
	}
	was.Seen.add(t.flow, Name{Topic: m.Topic, Type: m.Type}, ID{Source: m.Source, ID: m.ID}, m.Key, at.Truncate(time.Microsecond))
	was.Seen.trace(m.TraceParent, at.Truncate(time.Microsecond))
	if err := was.Seen.ask(ctx, t.flow, &m); err != nil {
		return err
	}
	stands := t.flow.stand(&was.Seen)
	stands.ask(was.Asked)
	text, err := json.Marshal(body{Seen: was.Seen, Standing: stands, Asked: was.Asked})
	if err != nil {
		return fmt.Errorf("flow %s: encode the row of saga %s: %w", t.flow.name, key, err)
	}
	if string(text) == row.Body {
		return nil
	}
	row.State, row.Body, row.Due, row.Drift = stands.State, string(text), time.Time{}, len(stands.Drift)
	if stands.Due != nil {
		row.Due = *stands.Due
	}
	return t.db.SaveTracked(ctx, tx, row)
}

// A body is what the row of a saga holds. How it stands is stored with what was seen, so that who reads it
// need not know the flow.
type body struct {
	Seen     record   `json:"seen"`
	Standing Standing `json:"standing"`
	Asked    []Asked  `json:"asked,omitempty"` // every undo that an operator asked for
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
		r := &rows[i]
		var b body
		if err := json.Unmarshal([]byte(r.Body), &b); err != nil {
			return nil, fmt.Errorf("flow %s: the row of saga %s cannot be read: %w", r.Flow, r.Key, err)
		}
		s := b.Standing
		s.Flow, s.Key, s.State, s.Keys = r.Flow, r.Key, cmp.Or(s.State, r.State), b.Seen.Keys
		s.At, s.Changed, s.Overdue = r.At, r.Changed, overdue[[2]string{r.Flow, r.Key}]
		out = append(out, s)
	}
	return out, nil
}
