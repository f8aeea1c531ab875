package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/lock"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

type tx = *memstore.Tx

func note(t tx, what string) error {
	old, _ := t.Get("done")
	return t.Put("done", strings.TrimPrefix(old+" "+what, " "))
}

func work(key string, es ...lock.Entity) lock.Work {
	return lock.Work{Scope: "ship", Key: key, Entities: es, Wait: time.Minute}
}

var (
	order = lock.Entity{Space: "order", Key: "7"}
	stock = lock.Entity{Space: "stock", Key: "tea"}
)

// TestOnce checks that each commit raises the versions. A repeat returns the stored result. A failure writes
// nothing and raises no version.
func TestOnce(t *testing.T) {
	db := memstore.New(nil)
	for i, c := range []struct {
		key      string
		fail     error
		version  int64
		replayed bool
	}{{"a", nil, 1, false}, {"a", nil, 0, true}, {"b", errors.New("no"), 2, false}, {"b", nil, 2, false},
		{"c", skald.Reject(errors.New("sold out")), 3, false}, {"d", nil, 4, false}} {
		version := int64(0)
		got, replayed, err := lock.Once(t.Context(), db, work(c.key, order, stock, order),
			func(_ context.Context, t tx, ts lock.Tokens) (string, error) {
				version = ts.Of("order", "7")
				return c.key, errors.Join(note(t, c.key), c.fail)
			})
		if (err != nil) != (c.fail != nil) || version != c.version || replayed != c.replayed || err == nil &&
			got != c.key {
			t.Errorf("%d: %q, version %d, replayed %v, %v", i, got, version, replayed, err)
		}
	}
	if got := db.User()["done"]; got != "a b d" {
		t.Errorf("done %q", got)
	}
}

// TestTurns checks that two callers that lock the same entities in different orders take turns, and lose no
// update.
func TestTurns(t *testing.T) {
	db := memstore.New(nil)
	var wg sync.WaitGroup
	for i := range 20 {
		es := []lock.Entity{order, stock}
		if i%2 == 1 {
			es = []lock.Entity{stock, order}
		}
		wg.Go(func() {
			_, _, err := lock.Once(t.Context(), db.Session(), work(fmt.Sprint(i), es...),
				func(_ context.Context, t tx, _ lock.Tokens) (int, error) { return 0, note(t, "x") })
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := db.User()["done"]; strings.Count(got, "x") != 20 {
		t.Errorf("done %q", got)
	}
}

// TestHeld checks that work with tokens is stored only if no other commit had the entity in between. Its own
// commit uses the tokens up.
func TestHeld(t *testing.T) {
	db, ctx := memstore.New(nil), t.Context()
	held, err := lock.Take(ctx, db, order)
	if err != nil || held.Of("order", "7") != 1 || held.Of("order", "8") != 0 {
		t.Fatalf("%v, %v", held, err)
	}
	write := func(key string, held lock.Tokens) (next lock.Tokens, err error) {
		w := work(key)
		w.Held = held
		_, _, err = lock.Once(ctx, db, w, func(_ context.Context, t tx, ts lock.Tokens) (int, error) {
			next = ts
			return 0, note(t, key)
		})
		return next, err
	}
	next, err := write("a", held)
	if err != nil {
		t.Fatal(err)
	}
	var over *lock.OvertakenError
	if _, err := write("b", held); !errors.As(err, &over) || over.Version != 1 || over.Found != 2 {
		t.Errorf("with used tokens: %v", err)
	}
	if _, err := write("c", next); err != nil {
		t.Errorf("with those of the first commit: %v", err)
	}
	held, err = lock.Take(ctx, db, order)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Take(ctx, db, order); err != nil {
		t.Fatal(err)
	}
	if _, err := write("d", held); !errors.As(err, &over) {
		t.Errorf("overtaken by another one: %v", err)
	}
	if _, err := write("c", held); err != nil {
		t.Errorf("what was done before: %v", err)
	}
	if got := db.User()["done"]; got != "a c" {
		t.Errorf("done %q", got)
	}
}

// TestIn checks that a token from a transaction of the caller is overtaken by each later lock of the entity.
func TestIn(t *testing.T) {
	db, ctx := memstore.New(nil), t.Context()
	own := db.BeginTx()
	held, err := lock.In(ctx, db, own, order, stock)
	if err = errors.Join(err, note(own, "mine"), own.Commit()); err != nil || held.Of("stock", "tea") != 1 {
		t.Fatalf("%v, %v", held, err)
	}
	undone := db.BeginTx()
	if _, err := lock.In(ctx, db, undone, order); errors.Join(err, undone.Rollback()) != nil {
		t.Fatal(err)
	}
	w := work("a")
	w.Held = held
	if _, _, err := lock.Once(ctx, db, w,
		func(_ context.Context, t tx, _ lock.Tokens) (int, error) { return 0, note(t, "a") }); err != nil {
		t.Errorf("a lock that was rolled back counts: %v", err)
	}
	if got := db.User()["done"]; got != "mine a" {
		t.Errorf("done %q", got)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	db := memstore.New(nil)
	for _, es := range [][]lock.Entity{nil, {{Space: "order"}}, {{Key: "7"}}} {
		if _, err := lock.Take(t.Context(), db, es...); !errors.Is(err, lock.ErrNothing) {
			t.Errorf("%v: %v", es, err)
		}
	}
	if _, _, err := lock.Once(t.Context(), db, lock.Work{Entities: []lock.Entity{order}},
		func(context.Context, tx, lock.Tokens) (int, error) { return 0, nil }); err == nil {
		t.Error("work without a key is done")
	}
	// A rival has the entity for longer than Wait.
	run, err := once.Begin(t.Context(), db,
		once.Request{Scope: "s", Key: "k", Locks: []store.Lock{{Space: "order", Key: "7"}}})
	if err != nil {
		t.Fatal(err)
	}
	w := work("a", order)
	w.Wait = time.Millisecond
	if _, _, err := lock.Once(t.Context(), db.Session(), w,
		func(context.Context, tx, lock.Tokens) (int, error) { return 0, nil }); !errors.Is(err,
		store.ErrBusy) {
		t.Errorf("busy: %v", err)
	}
	run.Rollback(t.Context())
}
