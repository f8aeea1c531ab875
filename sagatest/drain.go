package sagatest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/relay"
)

// IdleChecker is a Stepper that reports whether no work is left for it. It reports this even if it cannot
// work at the moment, because rows wait for a shard of another relay, or a message for a database that is
// down. Relays and inboxes are IdleCheckers.
type IdleChecker interface {
	Idle(ctx context.Context) (bool, error)
}

const (
	drainMost = 5 * time.Minute // or until the context ends
	// drainRest is the pause after a round without work if some work is left.
	drainRest = 5 * time.Millisecond
)

var (
	// ErrNotIdle means that work was left when the time was over.
	ErrNotIdle = errors.New("sagatest: not quiet")
	// ErrLeft means that no work is left, but some messages did not take effect.
	ErrLeft = errors.New("sagatest: drained, but some messages did not take effect")
)

// Drain steps relays and inboxes in turn until all committed messages are published and all received messages
// are handled, including the messages that the handlers emit. Then a test may check its tables. Give Drain
// every relay and inbox of the test, but do not run them. Drain takes at most five minutes, or until ctx
// ends. Its error then names a component with work left (ErrNotIdle). An error of a step ends Drain at once.
//
// Drain does not wait for retry times of messages. Messages that are left make Drain fail (ErrLeft), with the
// reason from the store. These are parked messages, dead letters, messages in quarantine, and rows that no
// relay publishes. A test that expects such messages uses DrainAllowing.
//
// Drain then makes the relays release their shards, so each Drain may have a new relay.
//
// With a broker in the process (membroker) and any store, all work is done then. Over a network a message
// may be in transit while no component has work: call Drain again until the expected data is there.
func Drain(ctx context.Context, steppers ...skald.Stepper) error {
	return DrainAllowing(ctx, 0, steppers...)
}

// DrainAllowing is like Drain, for a test in which some messages do not take effect. Messages of the kinds
// in may are no error.
func DrainAllowing(ctx context.Context, may Leftovers, steppers ...skald.Stepper) (err error) {
	defer func() { err = errors.Join(err, release(ctx, steppers)) }()
	if err := drain(ctx, steppers); err != nil {
		return err
	}
	return leftBy(ctx, may, steppers)
}

// release makes relays release their shards, so that a new relay of the next Drain need not wait for a
// lease to end.
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

// turnOf steps each stepper once.
func turnOf(ctx context.Context, steppers []skald.Stepper) (busy bool, err error) {
	for _, s := range steppers {
		if ctx.Err() != nil {
			return false, fmt.Errorf("%w: there is always more work: %w", ErrNotIdle, ctx.Err())
		}
		did, err := s.Step(ctx)
		if err != nil {
			return false, ended(ctx, fmt.Errorf("drain: %T: %w", s, err))
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
			return nil, ended(ctx, fmt.Errorf("drain: %T: %w", s, err))
		}
		if !quiet {
			return s, nil
		}
	}
	return nil, nil
}

// ended returns ErrNotIdle if the time is over, else err.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotIdle, err)
}
