package pgstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

// TestUnitThatFoundItsMarkCanStillBeUsed checks that Begin rolls back a unit whose message is finished, and
// that the unit still works for a caller that uses it.
func TestUnitThatFoundItsMarkCanStillBeUsed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s, ctx := b.store(t), t.Context()
	lock := store.Lock{Space: "order", Key: "a"}
	done := aMark()
	if _, err := s.Apply(ctx, store.Effect{Mark: &done, Locks: []store.Lock{lock}}); err != nil {
		t.Fatal(err)
	}
	begin := func() *unit {
		u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{done}, Locks: []store.Lock{lock}})
		if err != nil {
			t.Fatal(err)
		}
		if f := u.Found(); f.Marks[0].Outcome != store.Done || f.Locks[0] != 2 {
			t.Fatalf("found %+v", f)
		}
		return u.(*unit)
	}
	u := begin()
	insert := b.q(`INSERT INTO {kv} VALUES ($1, 'v')`)
	if _, err := u.Tx().Exec(ctx, insert, "committed"); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(ctx, u.Tx(), store.Effect{Rows: []skald.Message{aMessage("a")}}); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Tx().Exec(ctx, insert, "late"); err == nil {
		t.Error("the transaction of an ended unit can be used")
	}
	if n := one[int](t, b, `SELECT count(*) FROM {kv} WHERE key = 'committed'`) +
		one[int](t, b, `SELECT count(*) FROM {skald_outbox}`); n != 2 {
		t.Errorf("%d of two rows are there", n)
	}
	if v := one[int](t, b, `SELECT version FROM {skald_entity}`); v != 2 {
		t.Errorf("the entity is at %d, not 2", v)
	}
	one[int](t, b, `UPDATE {skald_entity} SET version = 1 RETURNING 1`)
	u = begin()
	if _, err := s.Apply(ctx, store.Effect{Locks: []store.Lock{lock}}); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(ctx, store.Effect{Rows: []skald.Message{aMessage("a")}}); !errors.Is(err,
		store.ErrBusy) {
		t.Errorf("an entity that moved meanwhile: %v", err)
	}
	if n := one[int](t, b, `SELECT count(*) FROM {skald_outbox}`); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

// TestEveryIntakeIsBound checks that the timeouts of a transaction are set for any result of its first
// mark.
// Interleaving 11.
func TestEveryIntakeIsBound(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s, ctx := b.store(t), t.Context()
	ahead := aMark()
	ahead.ID = uuid7.New(time.Now().Add(2 * time.Hour))
	if _, err := s.Apply(ctx, store.Effect{Mark: &ahead}); err != nil {
		t.Fatal(err)
	}
	done := aMark()
	if _, err := s.Apply(ctx, store.Effect{Mark: &done}); err != nil {
		t.Fatal(err)
	}
	timeless := aMark()
	timeless.ID = "no time"
	for name, marks := range map[string][]store.Mark{"none": nil, "a mark": {aMark()},
		"one that was ahead": {ahead}, "one that was done": {done},
		"two": {ahead, aMark()}, "two, one done": {done, aMark()}, "timeless": {timeless}} {
		if err := bound(ctx, s, marks); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func bound(ctx context.Context, s *Store, marks []store.Mark) error {
	u, err := s.Begin(ctx, store.Intake{Marks: marks, Wait: 1234 * time.Millisecond,
		Handle: 4321 * time.Millisecond})
	if err != nil {
		return err
	}
	var wait, idle, flush string
	err = u.Tx().QueryRow(ctx,
		`SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout'), current_setting('synchronous_commit')`).Scan(&wait, &idle, &flush)
	if err == nil && (wait != "1234ms" || idle != "4321ms" || flush == "off") {
		err = fmt.Errorf("lock_timeout %s, idle %s, synchronous_commit %s", wait, idle, flush)
	}
	_, undone := u.Rollback(ctx)
	return errors.Join(err, undone)
}
