package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/examples/shop/table"
)

// Tally has counts from the databases. It is cheap enough to query several times a second.
type Tally struct {
	Placed, Confirmed, Cancelled int // orders
	Written, Handled             int // messages in the outboxes; marks of each consumer except the tracker
	Tracked                      int // marks of the tracker
}

// Count reads databases, which are as for Run.
func Count(ctx context.Context, databases map[string]table.DB) (Tally, error) {
	var t Tally
	r, err := newReader(ctx, databases)
	if err != nil {
		return t, err
	}
	r.each("order", "CountStates", func(row table.Row) error {
		var state string
		var n int
		err := row.Scan(&state, &n)
		t.Placed += n
		switch state {
		case "confirmed":
			t.Confirmed += n
		case "cancelled":
			t.Cancelled += n
		}
		return err
	})
	add := func(to *int) func(table.Row) error {
		return func(row table.Row) error {
			var n int
			err := row.Scan(&n)
			*to += n
			return err
		}
	}
	r.each("order", "CountTracked", add(&t.Tracked))
	for _, name := range services() {
		r.each(name, "CountOutbox", add(&t.Written))
		r.each(name, "CountMarks", add(&t.Handled))
	}
	return t, r.err
}

// Ends counts messages that ended without an effect.
type Ends struct {
	Rejected          int // by a handler
	Barred            int // charges and reservations that arrived after the message that undoes them
	Dead              int // open dead letters
	Redriven, Dropped int // resolved dead letters
}

// CountEnds reads databases, which are as for Run.
func CountEnds(ctx context.Context, databases map[string]table.DB) (Ends, error) {
	var e Ends
	r, err := newReader(ctx, databases)
	if err != nil {
		return e, err
	}
	kinds := map[string]*int{"rejected": &e.Rejected, "barred": &e.Barred, "dead": &e.Dead,
		"redrive": &e.Redriven, "drop": &e.Dropped}
	add := func(row table.Row) error {
		var kind string
		var n int
		err := row.Scan(&kind, &n)
		if to := kinds[kind]; to != nil {
			*to += n
		}
		return err
	}
	for _, name := range services() {
		r.each(name, "CountEnds", add)
	}
	return e, r.err
}

// Chapter is one message of an order: the service that sent it and the services that took it.
type Chapter struct {
	Service string // the sender
	Type    string
	ID      string
	Row     int64  // its seq in the outbox of the sender
	Cause   string // the id of the message whose handler sent it; "" for the first
	Depth   int    // number of causes up to the first message
	At      time.Time
	Taken   []Taken
}

// Taken is the outcome of a message at one service.
type Taken struct {
	Service string
	Outcome string // done, rejected, barred
	Reason  string // of a rejection
	At      time.Time
}

// Story returns the messages of an order, each after its cause. It uses the causation ids of the messages,
// not clocks.
func Story(ctx context.Context, databases map[string]table.DB, order string) ([]Chapter, error) {
	r, err := newReader(ctx, databases)
	if err != nil {
		return nil, err
	}
	var all []Chapter
	for _, name := range services() {
		r.each(name, "Said", func(row table.Row) error {
			c := Chapter{Service: name}
			defer func() { all = append(all, c) }()
			var at string
			err := row.Scan(&c.Row, &c.ID, &c.Type, &c.Cause, &at)
			c.At = when(at)
			return err
		}, order)
	}
	for i := range all {
		all[i].Taken = takers(r, all[i].ID)
	}
	if r.err != nil {
		return nil, fmt.Errorf("story of order %s: %w", order, r.err)
	}
	return causedBy(all, "", 0), nil
}

func takers(r *reader, id string) (out []Taken) {
	for _, name := range services() {
		r.each(name, "Taken", func(row table.Row) error {
			t := Taken{Service: name}
			var at string
			err := row.Scan(&t.Outcome, &t.Reason, &at)
			t.At = when(at)
			out = append(out, t)
			return err
		}, id)
	}
	return out
}

// when parses a time that either database wrote as text. It returns the zero time if it cannot.
func when(s string) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999-07",
		"2006-01-02 15:04:05.999999999-07:00"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// causedBy returns the messages caused by cause, each followed by those it caused.
func causedBy(all []Chapter, cause string, depth int) (out []Chapter) {
	for _, c := range all {
		if c.Cause == cause {
			c.Depth = depth
			out = append(append(out, c), causedBy(all, c.ID, depth+1)...)
		}
	}
	return out
}
