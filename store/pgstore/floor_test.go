package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

// forgotten: a message was taken, its mark goes, and it comes again. It must not be fresh.
func forgotten(t *testing.T, b *bed, bug func(*Store)) error {
	ctx := context.Background()
	s := b.store(t)
	bug(s)
	m := aMark()
	m.ID = uuid7.New(time.Now().Add(-32 * day))
	if _, err := s.Apply(ctx, store.Effect{Mark: &m}); err != nil {
		return err
	}
	b.Known(t)
	if done, err := s.Maintain(ctx, store.Retention{}); err != nil || done.Marks != -1 {
		return fmt.Errorf("maintain did %+v, %v", done, err)
	}
	return isTooOld(ctx, s, m)
}

func isTooOld(ctx context.Context, s *Store, m store.Mark) error {
	u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{m}})
	if err != nil {
		return err
	}
	defer func() { _, _ = u.Rollback(ctx) }()
	if got := u.Found().Marks[0].Outcome; got != store.TooOld {
		return fmt.Errorf("a message that was taken is %v", got)
	}
	return nil
}

// replayed: a new consumer reads what is older than marks are kept, while the retention runs. All of it is fresh, once.
func replayed(t *testing.T, b *bed, bug func(*Store)) error {
	ctx := context.Background()
	s := b.store(t)
	bug(s)
	for _, ago := range []time.Duration{60, 50, 40, 35, 33, 32, 20, 0} {
		m := aMark()
		m.ID = uuid7.New(time.Now().Add(-ago * day))
		u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{m}})
		if err != nil {
			return err
		}
		if got := u.Found().Marks[0].Outcome; got != store.Fresh {
			_, _ = u.Rollback(ctx)
			return fmt.Errorf("a message of %d days ago is %v to a new consumer", ago, got)
		}
		if err := u.Commit(ctx); err != nil {
			return err
		}
		if _, err := s.Maintain(ctx, store.Retention{}); err != nil {
			return err
		}
		if v, err := s.Seen(ctx, m.Consumer, []store.Identity{m.Identity}); err != nil || v[0].Outcome != store.Done {
			return fmt.Errorf("the mark of a new consumer is %v, %v", v[0].Outcome, err)
		}
	}
	return nil
}

// emptying: a repeat comes while its slot is emptied, and waits for the leaf. What it then sees decides.
func emptying(t *testing.T, b *bed, inOne bool) error {
	ctx := context.Background()
	s := b.store(t)
	m := aMark()
	m.ID = uuid7.New(time.Now().Add(-32 * day))
	if _, err := s.Apply(ctx, store.Effect{Mark: &m}); err != nil {
		return err
	}
	b.Known(t)
	leaf := defaultMarks().leaf(time.Now().Add(-32*day), markSlot)
	text := s.leafed(firstMarks, markLeaf(leaf), leaf)
	tx, err := b.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, text["LockMarks"]); err != nil {
		return err
	}
	verdict := make(chan error, 1)
	go func() { verdict <- isTooOld(ctx, b.store(t), m) }()
	for deadline := time.Now().Add(5 * time.Minute); one[int](t, b, `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = $1::regclass`, b.prefix()+markLeaf(leaf)) == 0; {
		select {
		case err := <-verdict:
			return errors.Join(errors.New("a repeat does not wait for the slot that is emptied"), err)
		default:
		}
		if time.Now().After(deadline) {
			return errors.New("nobody waits")
		}
	}
	if inOne {
		_, err = tx.Exec(ctx, text["RaiseFloors"], time.Now().Add(-30*day).UnixMilli())
	}
	if err == nil {
		_, err = tx.Exec(ctx, text["EmptyMarks"])
	}
	if err = errors.Join(err, tx.Commit(ctx)); err != nil {
		return err
	}
	err = <-verdict
	if !inOne {
		_, late := b.pool.Exec(ctx, text["RaiseFloors"], time.Now().Add(-30*day).UnixMilli())
		err = errors.Join(err, late)
	}
	return err
}

// The floor stands with the emptying, in one transaction, for those whose marks go; and not for a consumer that is new.
// Interleaving 4.
func TestFloors(t *testing.T) {
	b := newBed(t)
	none := func(*Store) {}
	for name, right := range map[string]func() error{
		"forgotten": func() error { return forgotten(t, b, none) },
		"replayed":  func() error { return replayed(t, b, none) },
		"emptying":  func() error { return emptying(t, b, true) },
	} {
		if err := right(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		b.clear(t)
	}
	for name, wrong := range map[string]func() error{
		"a slot is emptied and no floor raised": func() error {
			return forgotten(t, b, func(s *Store) { s.raw["RaiseFloors"] = "SELECT $1::bigint, 'instead of skald_mark_00'" })
		},
		"a floor for a new consumer": func() error {
			return replayed(t, b, func(s *Store) { s.raw["Grown"] = "SELECT $1::bigint, 'instead of skald_mark_00'" })
		},
		"the floor is raised in a transaction of its own": func() error { return emptying(t, b, false) },
		"an old id is taken in without a look at the floor": func() error {
			return forgotten(t, b, func(s *Store) {
				for _, leaf := range s.marks.Load().text {
					leaf["InsertOld"] = strings.Replace(leaf["InsertMark"], "ON CONFLICT", "AND $8::bigint > 0 ON CONFLICT", 1)
				}
			})
		},
	} {
		if err := wrong(); err == nil {
			t.Errorf("%s: not found", name)
		} else {
			t.Logf("%s: found: %v", name, err)
		}
		b.clear(t)
	}
}
