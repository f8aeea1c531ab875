package sagatest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/relay"
)

// IdleChecker is a Stepper that reports whether it has work left. Idle returns false also if the stepper
// cannot do the work now, because a shard belongs to another relay or a database is down. Relays and inboxes
// are IdleCheckers.
type IdleChecker interface {
	Idle(ctx context.Context) (bool, error)
}

const (
	drainMost = 5 * time.Minute // limit of a Drain, if its context does not end earlier
	// drainRest is the pause after a round without progress, if some work is left.
	drainRest = 5 * time.Millisecond
)

var (
	// ErrNotIdle means that work was left when the time ended.
	ErrNotIdle = errors.New("sagatest: not quiet")
	// ErrLeft means that no work is left, but some messages did not take effect.
	ErrLeft = errors.New("sagatest: drained, but some messages did not take effect")
)

// Drain steps relays and inboxes until all committed messages are published and all received messages are
// handled, including the messages that the handlers emit. Then a test can check its tables. Give Drain each
// relay and each inbox of the test, and do not call their Run. Drain takes at most five minutes, or until ctx
// ends. Then it returns ErrNotIdle with a component that has work left. If a step fails, Drain returns its
// error.
//
// Drain does not wait for the retry times of messages. If messages are left, it returns ErrLeft with the
// reasons from the store. Such messages are parked messages, dead letters, messages in quarantine, and rows
// that no relay publishes. In a test that expects such messages use DrainAllowing.
//
// At its end, Drain makes the relays release their shards, so the next Drain can have a new relay.
//
// With a broker in the same process (membroker) and any store, all work is done after Drain. With a network,
// a message may be in transit while no component has work. In this case call Drain again until the expected
// data is there.
func Drain(ctx context.Context, steppers ...skald.Stepper) error {
	return DrainAllowing(ctx, 0, steppers...)
}

// DrainAllowing is like Drain, for a test in which some messages do not take effect. It returns no ErrLeft
// for messages of the allowed kinds.
func DrainAllowing(ctx context.Context, allowed Leftovers, steppers ...skald.Stepper) (err error) {
	defer func() { err = errors.Join(err, release(ctx, steppers)) }()
	if err := drain(ctx, steppers); err != nil {
		return err
	}
	return leftBy(ctx, allowed, steppers)
}

// release makes the relays release their shards. A new relay in the next Drain then need not wait for the end
// of a lease.
func release(ctx context.Context, steppers []skald.Stepper) error {
	if ctx.Err() != nil {
		return nil
	}
	var errs []error
	for _, s := range steppers {
		if r, is := s.(*relay.Relay); is {
			errs = append(errs, r.Close(ctx))
		}
	}
	return errors.Join(errs...)
}

func drain(ctx context.Context, steppers []skald.Stepper) error {
	ctx, cancel := context.WithTimeout(ctx, drainMost)
	defer cancel()
	for {
		busy, err := turnOf(ctx, steppers)
		if err != nil {
			return err
		}
		if busy {
			continue
		}
		left, err := busyStepper(ctx, steppers)
		if err != nil || left == nil {
			return err
		}
		rest := time.NewTimer(drainRest)
		select {
		case <-ctx.Done():
			rest.Stop()
			return fmt.Errorf("%w: %T has work left that it cannot do: see its Health(): %w",
				ErrNotIdle, left, ctx.Err())
		case <-rest.C:
		}
	}
}

// turnOf steps each stepper once. It returns busy=true if one of them had work.
func turnOf(ctx context.Context, steppers []skald.Stepper) (busy bool, err error) {
	for _, s := range steppers {
		if ctx.Err() != nil {
			return false, fmt.Errorf("%w: there is always more work: %w", ErrNotIdle, ctx.Err())
		}
		did, err := s.Step(ctx)
		if err != nil {
			return false, drainError(ctx, fmt.Errorf("drain: %T: %w", s, err))
		}
		busy = busy || did
	}
	return busy, nil
}

// busyStepper returns a stepper with work left, or nil.
func busyStepper(ctx context.Context, steppers []skald.Stepper) (skald.Stepper, error) {
	for _, s := range steppers {
		q, can := s.(IdleChecker)
		if !can {
			continue
		}
		quiet, err := q.Idle(ctx)
		if err != nil {
			return nil, drainError(ctx, fmt.Errorf("drain: %T: %w", s, err))
		}
		if !quiet {
			return s, nil
		}
	}
	return nil, nil
}

// drainError returns err. If the time is over, it returns ErrNotIdle with err.
func drainError(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotIdle, err)
}
