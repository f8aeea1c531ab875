package skald_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/skald-go/skald"
)

type runner func(ctx context.Context) error

func (r runner) Run(ctx context.Context) error { return r(ctx) }

// drains waits for the end and says so.
func drains(ended chan<- string, name string, err error) runner {
	return func(ctx context.Context) error {
		<-ctx.Done()
		ended <- name
		return err
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	started, ended := make(chan struct{}), make(chan string, 2)
	first := runner(func(ctx context.Context) error {
		close(started)
		return drains(ended, "first", nil)(ctx)
	})
	done := make(chan error)
	go func() { done <- skald.Run(ctx, first, drains(ended, "second", nil)) }()
	<-started
	select {
	case err := <-done:
		t.Fatalf("Run ended with %v while its context was live", err)
	default:
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	if len(ended) != 2 {
		t.Errorf("Run returned when %d of 2 had ended", len(ended))
	}
}

func TestRunStopsAllWhenOneFails(t *testing.T) {
	broken, other := errors.New("no table"), errors.New("could not drain")
	ended := make(chan string, 2)
	err := skald.Run(t.Context(),
		drains(ended, "first", other),
		runner(func(context.Context) error { return broken }),
		drains(ended, "third", nil),
	)
	if !errors.Is(err, broken) || !errors.Is(err, other) {
		t.Errorf("Run = %v, want both errors", err)
	}
	if len(ended) != 2 {
		t.Errorf("Run returned when %d of 2 others had ended", len(ended))
	}
}

func TestRunGoesOnWhenOneIsDone(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	early := make(chan struct{})
	var second error
	err := skald.Run(ctx,
		runner(func(context.Context) error { close(early); return nil }),
		runner(func(ctx context.Context) error {
			<-early
			second = ctx.Err()
			stop()
			<-ctx.Done()
			return nil
		}),
	)
	if err != nil || second != nil {
		t.Errorf("Run = %v; the second was stopped with the first: %v", err, second)
	}
}

func TestRunNothing(t *testing.T) {
	if err := skald.Run(t.Context()); err != nil {
		t.Errorf("Run of nothing = %v", err)
	}
}

func ExampleRun() {
	tick := runner(func(ctx context.Context) error { // a relay, an inbox
		<-ctx.Done()
		fmt.Println("handed back its leases")
		return nil
	})
	ctx, stop := context.WithTimeout(context.Background(), time.Millisecond) // signal.NotifyContext in a main
	defer stop()
	fmt.Println(skald.Run(ctx, tick))
	// Output:
	// handed back its leases
	// <nil>
}
