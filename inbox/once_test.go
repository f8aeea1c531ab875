package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store"
)

type receipt struct {
	Number int
	Note   string
}

// pay is work that shows when it happens twice.
func pay(w *world, number int) func(context.Context, tx) (receipt, error) {
	out := outbox.New(w.db, nil)
	return func(ctx context.Context, t tx) (receipt, error) {
		if err := out.Write(ctx, t, said.New("k", fmt.Sprint(number))); err != nil {
			return receipt{}, err
		}
		return receipt{number, "größe"}, note(t, "paid", fmt.Sprint(number))
	}
}

func TestOnce(t *testing.T) {
	w := newWorld(t, 1)
	for i := range 3 {
		got, replayed, err := inbox.Once(t.Context(), w.db, "charge", "key-1", map[string]int{"cents": 7}, pay(w, i))
		if err != nil || replayed != (i > 0) || got != (receipt{0, "größe"}) {
			t.Errorf("%d: %+v, replayed %v, %v", i, got, replayed, err)
		}
	}
	_, _, err := inbox.Once(t.Context(), w.db, "charge", "key-1", map[string]int{"cents": 8}, pay(w, 9))
	var other *inbox.ConflictError
	if !errors.As(err, &other) || other.ID != "key-1" || other.Consumer != "charge" {
		t.Errorf("another payload: %v", err)
	}
	if _, replayed, err := inbox.Once(t.Context(), w.db, "refund", "key-1", nil, pay(w, 1)); err != nil || replayed {
		t.Errorf("another scope: replayed %v, %v", replayed, err)
	}
	w.expect("paid", "0 1")
	if rows := w.db.Rows(); len(rows) != 2 {
		t.Errorf("said %+v", rows)
	}
	for _, bad := range [][2]string{{"", "k"}, {"s", ""}} {
		if _, _, err := inbox.Once(t.Context(), w.db, bad[0], bad[1], nil, pay(w, 2)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// A refusal undoes what was written, is kept with what is said, and is answered again. Any other failure is not kept.
func TestOnceRefusedAndFailed(t *testing.T) {
	w := newWorld(t, 1)
	declined := errors.New("card declined")
	runs := 0
	refuse := func(_ context.Context, t tx) (int, error) {
		runs++
		return 0, errors.Join(note(t, "paid", "no"), skald.Reject(declined, said.New("k", "declined")))
	}
	for i := range 2 {
		_, replayed, err := inbox.Once(t.Context(), w.db, "charge", "a", "7", refuse)
		var no *inbox.RefusedError
		if !errors.As(err, &no) || no.Reason != "card declined" || replayed || errors.Is(err, declined) != (i == 0) {
			t.Errorf("%d: replayed %v, %v", i, replayed, err)
		}
	}
	w.expect("paid", "")
	if rows := w.db.Rows(); len(rows) != 1 || runs != 1 {
		t.Errorf("%d runs, said %+v", runs, rows)
	}
	for _, fn := range []func(context.Context, tx) (int, error){
		func(_ context.Context, t tx) (int, error) {
			return 0, errors.Join(note(t, "paid", "x"), errors.New("later"))
		},
		func(context.Context, tx) (int, error) { panic("oh") },
		func(context.Context, tx) (int, error) {
			return 0, skald.Reject(declined, skald.Draft{Topic: "no topic", Type: "x"})
		},
	} {
		if _, _, err := inbox.Once(t.Context(), w.db, "charge", "b", "7", fn); err == nil {
			t.Error("a failure is no failure")
		}
	}
	if got, replayed, err := inbox.Once(t.Context(), w.db, "charge", "b", "7", pay(w, 3)); err != nil || replayed || got.Number != 3 {
		t.Errorf("behind failures: %+v, replayed %v, %v", got, replayed, err)
	}
	w.expect("paid", "3")
}

// In a transaction of the caller's own it stands with what else is written there, or not at all.
func TestOnceInATransactionOfOnesOwn(t *testing.T) {
	w := newWorld(t, 1)
	once := func(t tx, fn func(context.Context, tx) (receipt, error)) (receipt, bool, error) {
		return inbox.OnceIn(w.t.Context(), w.db, t, "charge", "a", "7", fn)
	}
	own := w.db.BeginTx()
	if _, _, err := once(own, pay(w, 1)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(note(own, "mine", "x"), own.Rollback()); err != nil {
		t.Fatal(err)
	}
	w.expect("paid", "")
	own = w.db.BeginTx()
	if got, replayed, err := once(own, pay(w, 2)); err != nil || replayed || got.Number != 2 {
		t.Fatalf("%+v, replayed %v, %v", got, replayed, err)
	}
	if got, replayed, err := once(own, pay(w, 3)); err != nil || !replayed || got.Number != 2 {
		t.Errorf("again in the same transaction: %+v, replayed %v, %v", got, replayed, err)
	}
	if err := errors.Join(note(own, "mine", "x"), own.Commit()); err != nil {
		t.Fatal(err)
	}
	if got, replayed, err := inbox.Once(t.Context(), w.db, "charge", "a", []byte("7"), pay(w, 4)); err != nil || !replayed || got.Number != 2 {
		t.Errorf("%+v, replayed %v, %v", got, replayed, err)
	}
	w.expect("paid", "2")
	w.expect("mine", "x")
	own = w.db.BeginTx()
	var no *inbox.RefusedError
	_, _, err := inbox.OnceIn(t.Context(), w.db, own, "charge", "b", "7", func(context.Context, tx) (int, error) {
		return 0, skald.Reject(errors.New("no"), said.New("k", "no"))
	})
	if err = errors.Join(err, own.Commit()); !errors.As(err, &no) {
		t.Fatal(err)
	}
	if _, _, err := inbox.Once(t.Context(), w.db, "charge", "b", "7", pay(w, 5)); !errors.As(err, &no) || no.Reason != "no" {
		t.Errorf("a refusal that was committed: %v", err)
	}
	w.expect("paid", "2")
}

func TestOnceAmongRivals(t *testing.T) {
	w := newWorld(t, 1)
	var wg sync.WaitGroup
	var mu sync.Mutex
	fresh := 0
	for i := range 20 {
		wg.Go(func() {
			got, replayed, err := inbox.Once(t.Context(), w.db.Session(), "charge", "a", "7", pay(w, 7))
			if err != nil || got.Number != 7 {
				t.Errorf("%d: %+v, %v", i, got, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if !replayed {
				fresh++
			}
		})
	}
	wg.Wait()
	if w.expect("paid", "7"); fresh != 1 {
		t.Errorf("%d of 20 did it", fresh)
	}
}

// A key with a time is not taken again once it is older than what is remembered.
func TestOnceTooOld(t *testing.T) {
	w := newWorld(t, 1)
	key := uuid7.New(w.now)
	if _, _, err := inbox.Once(t.Context(), w.db, "charge", key, "7", pay(w, 1)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := w.db.Maintain(t.Context(), store.Retention{}); err != nil {
			t.Fatal(err)
		}
		w.pass(31 * 24 * time.Hour)
	}
	if _, err := w.db.Maintain(t.Context(), store.Retention{}); err != nil {
		t.Fatal(err)
	}
	var old *inbox.TooOldError
	if _, _, err := inbox.Once(t.Context(), w.db, "charge", key, "7", pay(w, 2)); !errors.As(err, &old) {
		t.Errorf("a forgotten key: %v", err)
	}
	w.expect("paid", "1")
}
