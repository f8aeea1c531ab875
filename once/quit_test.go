package once_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/skald-go/skald/once"
)

// TestWorkThatEndsItsGoroutine checks that work that ends the caller's goroutine is undone, and that the key
// is free.
func TestWorkThatEndsItsGoroutine(t *testing.T) {
	w := newWorld(t)
	quit := make(chan struct{})
	go func() {
		defer close(quit)
		_, _, _ = once.Do(t.Context(), w.db, "charge", "key-1", "7",
			func(_ context.Context, tx tx) (receipt, error) {
				if err := note(tx, "paid", "lost"); err != nil {
					return receipt{}, err
				}
				runtime.Goexit()
				return receipt{}, nil
			})
		t.Error("it returned")
	}()
	<-quit
	w.expect("paid", "")
	got, replayed, err := once.Do(t.Context(), w.db, "charge", "key-1", "7", pay(w, 1))
	if err != nil || replayed || got.Number != 1 {
		t.Fatalf("the next call: %+v, %v, %v", got, replayed, err)
	}
	w.expect("paid", "1")
}
