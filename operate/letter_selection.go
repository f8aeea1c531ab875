// This file selects the messages that consumers keep: parked messages and dead letters.

package operate

import (
	"context"
	"iter"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// Selection selects parked messages or, with Dead, dead letters. Zero fields select all.
type Selection struct {
	Dead        bool   `json:"dead,omitempty"`
	Consumer    string `json:"consumer,omitempty"`
	Source      string `json:"source,omitempty"`
	ID          string `json:"id,omitempty"`
	Key         []byte `json:"key,omitzero"` // nil selects all; an empty key selects messages with that key
	Topic       string `json:"topic,omitempty"`
	Type        string `json:"type,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"` // of dead letters
	Kind        string `json:"kind,omitempty"`        // of dead letters: one of DeadKinds
	// DeadFrom and DeadTo select dead letters by the time of their death. DeadTo itself is not included. Zero
	// means no limit.
	DeadFrom time.Time `json:"dead_from,omitzero"`
	DeadTo   time.Time `json:"dead_to,omitzero"`
	After    int64     `json:"after,omitempty"` // only messages with a larger Place
	// All is required to change messages if no other field selects. It prevents a change of all messages by
	// mistake.
	All bool `json:"all,omitempty"`

	except map[runTarget]bool
}

// DeadKinds returns the kinds of dead letters: see package failure.
func DeadKinds() []string {
	return []string{"attempts", "age", "malformed", "permanent", failure.KindRejected, "crash", "unhandled",
		failure.KindSkipped, failure.KindKeyFull, failure.KindUnkept, "too_large"}
}

// Filtered reports whether a field other than Dead, After and All is set.
func (s *Selection) Filtered() bool {
	return s.Key != nil || s.Consumer+s.Source+s.ID+s.Topic+s.Type+s.Fingerprint+s.Kind != "" ||
		!s.DeadFrom.IsZero() || !s.DeadTo.IsZero()
}

// check returns a *UsageError if a change has no author, no reason or no selection.
func (s *Selection) check(o *Order) error {
	if err := checkOrder(o); err != nil {
		return err
	}
	if !o.DryRun && !s.All && !s.Filtered() {
		return &UsageError{
			Reason: "which messages? Select some, or set All to select all"}
	}
	return nil
}

// matches reports whether s selects p. It checks only the fields that the store does not check in each query.
func (s *Selection) matches(p *store.Parked) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	named := func(want, have string) bool { return want == "" || column.Names(have, want) }
	return !s.except[runTarget{Consumer: p.Consumer, Identity: p.Identity}] && named(s.ID, p.ID) &&
		named(s.Source, p.Source) && is(s.Topic, p.Message.Topic) && is(s.Type, p.Message.Type) &&
		(p.Dead == nil || is(s.Kind, p.Dead.Kind) && !p.Dead.At.Before(s.DeadFrom) &&
			(s.DeadTo.IsZero() || p.Dead.At.Before(s.DeadTo)))
}

func (s *Selection) query(bare bool) store.ParkedQuery {
	out := store.ParkedQuery{Limit: pageSize, Consumer: s.Consumer, Fingerprint: s.Fingerprint,
		Dead: &s.Dead, Key: s.Key,
		After: s.After, Bare: bare, Topic: s.Topic, Type: s.Type}
	if s.Dead {
		out.Kind, out.DeadFrom, out.DeadTo = s.Kind, s.DeadFrom, s.DeadTo
	}
	if s.Source != "" && s.ID != "" {
		out.Identity = &store.Identity{Source: s.Source, ID: s.ID}
	}
	return out
}

// MessageStore is the part of a store that the functions for parked messages and dead letters need.
type MessageStore interface {
	Applier
	MarkReader
	store.Lister
}

// List reads the selected messages in the order of arrival, page by page. If bare is true, it leaves out
// payloads and headers. It stops after an error.
func List(ctx context.Context, db MessageStore, s Selection, bare bool) iter.Seq2[store.Parked, error] {
	return walk(ctx, db, &s, s.query(bare))
}

// listAny lists both parked messages and dead letters, without payloads and headers. It ignores Dead and the
// fields that select only dead letters.
func listAny(ctx context.Context, db MessageStore, s Selection) iter.Seq2[store.Parked, error] {
	what := s.query(true)
	what.Dead, what.Kind, what.DeadFrom, what.DeadTo = nil, "", time.Time{}, time.Time{}
	return walk(ctx, db, &s, what)
}

func walk(ctx context.Context, db MessageStore, s *Selection, what store.ParkedQuery) iter.Seq2[store.Parked,
	error] {
	return func(yield func(store.Parked, error) bool) {
		var page column.Page
		for {
			if !what.Bare {
				what.Limit = page.Limit(pageSize)
			}
			list, err := store.ListParked(ctx, db, what)
			if err != nil {
				yield(store.Parked{}, err)
				return
			}
			bytes := 0
			for _, p := range list {
				what.After = p.Place
				bytes += column.Weight(&p.Message)
				if s.matches(&p) && !yield(p, nil) {
					return
				}
			}
			if len(list) < what.Limit {
				return
			}
			page.Read(len(list), bytes)
		}
	}
}

// selected returns the selected messages, without payloads, in order. It returns a *NoMatchError if no
// message is selected.
func selected(ctx context.Context, db MessageStore, s *Selection) (all []store.Parked, err error) {
	for p, err := range List(ctx, db, *s, true) {
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, &NoMatchError{Reason: "no message is selected"}
	}
	return all, nil
}

// find returns the parked message or dead letter with this identity, or nil if there is none.
func find(ctx context.Context, db MessageStore, consumer string, id store.Identity) (*store.Parked, error) {
	list, err := store.ListParked(ctx, db,
		store.ParkedQuery{Consumer: consumer, Identity: &id, Bare: true, Limit: 1})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}
