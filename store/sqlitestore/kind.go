package sqlitestore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

func scanKind(scan func(...any) error) (k store.Kind, err error) {
	err = scan(&k.Topic, &k.Type)
	return k, err
}

// isKnown reports whether a has nothing new to write, so that SyncConsumer needs no write lock.
func (s *Store) isKnown(ctx context.Context, a store.SyncRequest) (bool, error) {
	switch {
	case len(a.Checkpoints) > 0:
		return false, nil
	case a.Heartbeat == nil:
		return true, nil
	case a.Heartbeat.Forget > 0, a.Heartbeat.Progress:
		return false, nil
	}
	var noted []store.Kind
	rows, err := s.run.Query(ctx, "TypesNoted", a.Consumer)
	if err == nil {
		noted, err = sqlexec.Collect(rows, scanKind)
	}
	return !slices.ContainsFunc(a.Heartbeat.Own, func(k store.Kind) bool {
			return !slices.Contains(noted,
				k)
		}),
		err
}

// beat writes a heartbeat with the types that a process handles. It returns the types that all processes of
// the consumer recorded before.
func beat(ctx context.Context, x *sqlexec.Session, consumer string, b store.Heartbeat) (was []store.Kind,
	err error) {
	if b.Forget > 0 {
		if _, err := x.Exec(ctx, "ForgetTypes", consumer, sqlexec.Milliseconds(b.Forget)); err != nil {
			return nil, fmt.Errorf("delete old types: %w", err)
		}
	}
	rows, err := x.Rows(ctx, "Types", consumer)
	if err == nil {
		was, err = sqlexec.Collect(rows, scanKind)
	}
	for i := 0; err == nil && i < len(b.Own); i++ {
		_, err = x.Exec(ctx, "NoteType", consumer, b.Own[i].Topic, b.Own[i].Type)
	}
	if err == nil && len(b.Own) > 0 {
		_, err = x.Exec(ctx, "NoteConsumer", consumer, b.Progress)
	}
	return was, err
}

// leftKinds lists the types of messages that wait for another build, because no process so far handles them.
func (s *Store) leftKinds(ctx context.Context) (out []store.UnhandledKind, err error) {
	rows, err := s.run.Query(ctx, "LeftTypes")
	if err == nil {
		out, err = sqlexec.Collect(rows, func(scan func(...any) error) (k store.UnhandledKind, err error) {
			var heard int64 // in milliseconds
			err = scan(&k.Consumer, &k.Topic, &k.Type, &k.Messages, &k.Host, &heard)
			if k.LastHeartbeat = -1; heard >= 0 {
				k.LastHeartbeat = time.Duration(heard) * time.Millisecond
			}
			return k, err
		})
	}
	return out, sqlexec.Failed("list types without a handler", err)
}
