package view

import (
	"context"
	"fmt"
	"time"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/internal/saga/engine"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// mostIDs limits the IDs for which the marks of each source are read.
const mostIDs = 200

// writtenLine is a message in a source's outbox.
type writtenLine struct {
	ID      string    `json:"id"`
	Topic   string    `json:"topic"`
	Type    string    `json:"type"`
	Written time.Time `json:"written_at"`
	State   string    `json:"state"` // published, waits, or unknown (if too many rows wait)
}

// finishedLine is the mark of a message at a consumer.
type finishedLine struct {
	Consumer string    `json:"consumer"`
	Source   string    `json:"source"`
	ID       string    `json:"id"`
	Type     string    `json:"type,omitempty"`
	Outcome  string    `json:"outcome"`
	Reason   string    `json:"reason,omitempty"`
	Code     int32     `json:"code,omitempty"`
	At       time.Time `json:"at"`
}

// identitiesOf returns the identities of all messages in the list parts, and the types of the messages, if
// known.
func identitiesOf(parts []storyPart) (ids []store.Identity, types map[store.Identity]string) {
	types = map[store.Identity]string{}
	known := map[store.Identity]bool{}
	add := func(id store.Identity, typ string) {
		if id.ID != "" && !known[id] && len(ids) < mostIDs {
			known[id] = true
			ids = append(ids, id)
		}
		if typ != "" {
			types[id] = typ
		}
	}
	for i := range parts {
		part := &parts[i]
		for j := range part.rows {
			add(part.rows[j].Identity, part.rows[j].Type)
		}
		for j := range part.held {
			add(part.held[j].Identity, part.held[j].Message.Type)
		}
		for j := range part.Steps {
			s := &part.Steps[j]
			add(store.Identity{Source: s.Source, ID: s.ID}, "")
			add(store.Identity{Source: s.BySource, ID: s.ByID}, "")
		}
	}
	return ids, types
}

// readFinished reads the marks of messages at the consumers of a source.
func readFinished(ctx context.Context, s *page.Source, consumers []string, ids []store.Identity,
	types map[store.Identity]string) (out []finishedLine, err error) {
	if len(ids) == 0 || len(consumers) == 0 {
		return nil, nil
	}
	got, err := s.DB.List(ctx, store.List{Finished: &store.FinishedQuery{Consumers: consumers, IDs: ids}})
	for i := range got.Finished {
		f := &got.Finished[i]
		out = append(out, finishedLine{f.Consumer, f.Source, f.ID, types[f.Identity], f.Outcome.String(),
			f.Reason, f.Code, f.At})
	}
	return out, err
}

// correlationsOf returns the correlation IDs of the messages of orchestrated sagas.
func correlationsOf(list []operate.SagaProgress) (out []string) {
	for i := range list {
		if s := &list[i]; s.ID != "" {
			out = append(out, engine.Address(s.Name, s.Key, s.ID))
		}
	}
	return out
}

func (part *storyPart) finishedEvents(add func(at *time.Time, what, where, grade string)) {
	for i := range part.Written {
		w := &part.Written[i]
		what, grade := w.Type+" was written", ""
		switch w.State {
		case "published":
			what += " and published"
		case "waits":
			what, grade = what+", and is not published yet", "warn"
		}
		add(&w.Written, what, "topic "+w.Topic, grade)
	}
	for i := range part.Finished {
		f := &part.Finished[i]
		what := f.Type
		if what == "" {
			what = "message " + page.Cut(f.ID, 80)
		}
		switch f.Outcome {
		case store.Rejected.String():
			add(&f.At, what+" was rejected: "+page.Cut(page.FirstLine(f.Reason), 200), f.Consumer, "warn")
		case store.Barred.String():
			add(&f.At, what+" was barred: its step was already undone", f.Consumer, "")
		default:
			add(&f.At, what+" was handled", f.Consumer, "")
		}
	}
	for i := range part.held {
		if c := part.held[i].Call; c != nil {
			outcome := "its outcome is unknown"
			if c.Outcome != "" {
				outcome = "its outcome is stored"
			}
			add(&c.Since, fmt.Sprintf("%s made an external call with the key %s: %s",
				part.held[i].Message.Type, page.Cut(c.Key, 80), outcome), part.held[i].Consumer, "warn")
		}
	}
}
