package exec

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/skald-go/skald/failure"
)

// A worker's functions share a goroutine until one of them ends it. A function that runs another function
// does not deadlock.
func TestGuarded(t *testing.T) {
	w := &Worker[int]{}
	defer w.Close()
	own := errors.New("no stock")
	for _, ctx := range []context.Context{t.Context(), w.Under(t.Context())} {
		run := func(f func() error) error { _, err := runInWorker[int](ctx, time.Minute, f); return err }
		for range 2 {
			if err := run(func() error { return own }); err != own {
				t.Errorf("its own error became %v", err)
			}
			var p *failure.PanicError
			if err := run(func() error { panic("oops") }); !errors.As(err, &p) || p.Value != "oops" {
				t.Errorf("a panic became %v", err)
			}
			if err := run(func() error { runtime.Goexit(); return nil }); !errors.Is(err, failure.ErrQuit) {
				t.Errorf("the end of its goroutine became %v", err)
			}
			err := run(func() error { return run(func() error { runtime.Goexit(); return nil }) })
			if !errors.Is(err, failure.ErrQuit) {
				t.Errorf("the end of an inner one became %v", err)
			}
		}
	}
}

func BenchmarkGuarded(b *testing.B) {
	w := &Worker[int]{}
	defer w.Close()
	for name, ctx := range map[string]context.Context{"worker": w.Under(b.Context()), "none": b.Context()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = runInWorker[int](ctx, time.Minute, func() error { deep(60); return nil })
			}
		})
	}
}

// deep uses as much stack as a statement.
func deep(n int) (s int) {
	var a [128]byte
	if n == 0 {
		return int(a[n])
	}
	a[n%128] = byte(n)
	return deep(n-1) + int(a[n%128])
}
