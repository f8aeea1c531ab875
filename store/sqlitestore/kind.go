package sqlitestore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

var _ store.KindWatcher = (*Store)(nil)

func scanKind(scan func(...any) error) (k store.Kind, err error) {
	err = scan(&k.Topic, &k.Type)
	return k, err
}

// Kinds notes what a process of a consumer handles, and reads what others do. It writes nothing where that was noted just now.
func (s *Store) Kinds(ctx context.Context, consumer string, own []store.Kind, forget time.Duration) (out []store.Kind, err error) {
	var noted []store.Kind
	if forget <= 0 {
		rows, err := s.query(ctx, "KindsNoted", consumer)
		if err == nil {
			noted, err = collect(rows, scanKind)
		}
		if err != nil {
			return nil, failed("note types", err)
		}
	}
	if forget <= 0 && !slices.ContainsFunc(own, func(k store.Kind) bool { return !slices.Contains(noted, k) }) {
		rows, err := s.query(ctx, "Kinds", consumer)
		if err == nil {
			out, err = collect(rows, scanKind)
		}
		return out, failedOr("read types", err)
	}
	err = s.alone(ctx, func(ctx context.Context, x *session) error {
		out, err = x.noteKinds(ctx, consumer, own, forget)
		return err
	})
	if err != nil {
		return nil, failed("note types", err)
	}
	return out, nil
}

func (x *session) noteKinds(ctx context.Context, consumer string, own []store.Kind, forget time.Duration) (was []store.Kind, err error) {
	if forget > 0 {
		if _, err := x.exec(ctx, "ForgetKinds", consumer, forget.Milliseconds()); err != nil {
			return nil, fmt.Errorf("forget types: %w", err)
		}
	}
	rows, err := x.rows(ctx, "Kinds", consumer)
	if err == nil {
		was, err = collect(rows, scanKind)
	}
	for i := 0; err == nil && i < len(own); i++ {
		_, err = x.exec(ctx, "NoteKind", consumer, own[i].Topic, own[i].Type)
	}
	return was, err
}

// LeftKinds lists the types of messages that were left to another build, and wait.
func (s *Store) LeftKinds(ctx context.Context) (out []store.LeftKind, err error) {
	rows, err := s.query(ctx, "LeftKinds")
	if err == nil {
		out, err = collect(rows, func(scan func(...any) error) (k store.LeftKind, err error) {
			var heard int64 // milliseconds
			err = scan(&k.Consumer, &k.Topic, &k.Type, &k.Messages, &k.Host, &heard)
			if k.Heard = -1; heard >= 0 {
				k.Heard = time.Duration(heard) * time.Millisecond
			}
			return k, err
		})
	}
	return out, failedOr("look who handles what", err)
}

// joined is kinds as a statement compares them: a list in JSON.
func joined(kinds []store.Kind) string {
	list := make([]string, len(kinds))
	for i, k := range kinds {
		list[i] = k.Topic + "\x1f" + k.Type
	}
	text, _ := json.Marshal(list) // of texts it cannot fail
	return string(text)
}
