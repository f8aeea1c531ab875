package pgstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
)

// starved pauses an instance during its handler, and checks that a rival gets the message within wait.
func starved(t *testing.T, b *bed, spoil func(*Store), wait time.Duration) error {
	ctx := context.Background()
	s, m := b.store(t), aMark()
	if spoil != nil {
		spoil(s)
	}
	paused, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{m}, Handle: time.Second})
	if err != nil {
		return err
	}
	defer func() { _, _ = paused.Rollback(ctx) }()
	u, err := b.store(t).Begin(ctx, store.Intake{Marks: []store.Mark{m}, Wait: wait})
	if err != nil {
		return fmt.Errorf("the rival starves: %w", err)
	}
	return u.Commit(ctx)
}

// forEver removes the limit on idle transactions.
func forEver(s *Store) {
	bound := regexp.MustCompile(`set_config\('idle_in_transaction_session_timeout', (\$\d+)::text, true\)`)
	for name, sql := range s.pg.SQL {
		s.pg.SQL[name] = bound.ReplaceAllString(sql,
			`set_config('idle_in_transaction_session_timeout', '0' || left($1::text, 0), true)`)
	}
}

// circle runs two intakes of the same three messages in one statement each, while a third transaction has
// the middle one in progress.
func circle(t *testing.T, b *bed, spoil func(*Store)) error {
	ctx := context.Background()
	id := fmt.Sprint("circle ", time.Now().UnixNano(), " ")
	mark := func(n int) store.Mark {
		return store.Mark{Consumer: "c", Identity: store.Identity{Source: "/s", ID: fmt.Sprint(id, n)},
			Outcome: store.Done}
	}
	third, err := b.store(t).Begin(ctx, store.Intake{Marks: []store.Mark{mark(2)}})
	if err != nil {
		return err
	}
	take := func(s *Store, ms ...store.Mark) func(*actor) error {
		return func(*actor) error {
			u, err := s.Begin(ctx, store.Intake{Marks: ms, Wait: 5 * time.Minute})
			if err != nil {
				return err
			}
			return u.Commit(ctx)
		}
	}
	var as [2]*actor
	for i := range as {
		name := fmt.Sprintf("circle %d %s", i, b.name())
		s := New(b.actorPool(t, name), &Options{Schema: b.schema})
		if spoil != nil && i == 1 {
			spoil(s)
		}
		as[i] = act(name, take(s, mark(1), mark(2), mark(3)))
		if over, err := as[i].settle(ctx, b.pool); over || err != nil {
			return errors.Join(fmt.Errorf("%s does not wait: %w", name, as[i].err), err)
		}
	}
	if err := third.Commit(ctx); err != nil {
		return err
	}
	return play(ctx, b.pool, nil, as[0], as[1], nil)
}

// backwards inserts marks in another order than all others do.
func backwards(s *Store) {
	replaced(s, "InsertMarks", strings.Replace(s.pg.SQL["InsertMarks"], "ON CONFLICT",
		"ORDER BY i.id DESC ON CONFLICT", 1))
}

// sameEntity handles two messages of one entity in one transaction.
func sameEntity(t *testing.T, b *bed, spoil func(*Store)) error {
	ctx, s := context.Background(), b.store(t)
	if spoil != nil {
		spoil(s)
	}
	lock := store.Lock{Space: "order", Key: "7"}
	u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{aMark(), aMark()},
		Locks: []store.Lock{lock, lock}})
	if err != nil {
		return err
	}
	return u.Commit(ctx)
}

// eachLock locks each entity in the list, also repeated ones.
func eachLock(s *Store) {
	replaced(s, "LockEntities", strings.Replace(s.pg.SQL["LockEntities"], "unnest($1::text[], $2::bytea[])",
		"unnest($1::text[] || $1::text[], $2::bytea[] || $2::bytea[])", 1))
}

// sameSnapshot looks for an existing mark in the snapshot of the statement that would insert it.
func sameSnapshot(s *Store) {
	replaced(s, "InsertMark", strings.Replace(s.pg.SQL["InsertMark"], "ON CONFLICT",
		"AND set_config('skald.seen', pg_current_snapshot()::text, true) <> '' ON CONFLICT", 1))
	replaced(s, "FindMark", strings.Replace(s.pg.SQL["FindMark"], "m.id = $3::text",
		"m.id = $3::text AND pg_visible_in_snapshot(m.xmin::text::xid8, current_setting('skald.seen')::pg_snapshot)", 1))
}
