package sagatest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/relay"
)

// Quieter is a Stepper that can tell that nothing is left for it although it has nothing to do at the
// moment: rows may wait for a shard that another relay holds, a message for a database that is away. Relays
// and inboxes can.
type Quieter interface {
	Quiet(ctx context.Context) (bool, error)
}

const (
	drainMost = 5 * time.Minute // unless the context ends before
	// between two rounds in which there is nothing to do, and something is left
	drainRest = 5 * time.Millisecond
)

var (
	// ErrNotQuiet: something is left when the time is over.
	ErrNotQuiet = errors.New("sagatest: not quiet")
	// ErrLeft: all is quiet, and something is left that did not take effect.
	ErrLeft = errors.New("sagatest: drained, but not all took effect")
)

// Drain steps relays and inboxes in turn until all that was committed is carried and all that arrived is
// handled, and what that has said, too: then a test may look at its tables. Give it every relay and inbox of
// the test, not running; it takes five minutes at most, unless ctx ends before, and then says who is not
// quiet (ErrNotQuiet). An error of a step ends it at once.
//
// It waits for no clock of a message's. What is left then fails it (ErrLeft), with the reason that the store
// has: parked messages, dead letters, quarantine, rows that no relay carries. A test that expects these says
// so, with DrainLeaving.
//
// Drain then has the relays release their shards. So each Drain may have a new relay.
//
// With a broker in the process (membroker) and any store, your PostgreSQL too, quiet is quiet. Over a network
// a message may be under way while nobody has anything to do: drain again until what you expect is there.
func Drain(ctx context.Context, steppers ...skald.Stepper) error {
	return DrainLeaving(ctx, 0, steppers...)
}

// DrainLeaving is Drain for a test in which some messages are not to take effect: what may names is left
// without an error.
func DrainLeaving(ctx context.Context, may Left, steppers ...skald.Stepper) (err error) {
	defer func() { err = errors.Join(err, release(ctx, steppers)) }()
	if err := drain(ctx, steppers); err != nil {
		return err
	}
	return leftBy(ctx, may, steppers)
}

// release has relays release their shards, so that a new relay of the next Drain need not wait for the end of
// a lease.
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
		left, err := loud(ctx, steppers)
		if err != nil || left == nil {
			return err
		}
		rest := time.NewTimer(drainRest)
		select {
		case <-ctx.Done():
			rest.Stop()
			return fmt.Errorf("%w: %T has something left, and can do nothing about it: see its Health(): %w",
				ErrNotQuiet, left, ctx.Err())
		case <-rest.C:
		}
	}
}

// turnOf is one step of each.
func turnOf(ctx context.Context, steppers []skald.Stepper) (busy bool, err error) {
	for _, s := range steppers {
		if ctx.Err() != nil {
			return false, fmt.Errorf("%w: there is always more to do: %w", ErrNotQuiet, ctx.Err())
		}
		did, err := s.Step(ctx)
		if err != nil {
			return false, ended(ctx, fmt.Errorf("drain: %T: %w", s, err))
		}
		busy = busy || did
	}
	return busy, nil
}

// loud is one that has something left; nil: none.
func loud(ctx context.Context, steppers []skald.Stepper) (skald.Stepper, error) {
	for _, s := range steppers {
		q, can := s.(Quieter)
		if !can {
			continue
		}
		quiet, err := q.Quiet(ctx)
		if err != nil {
			return nil, ended(ctx, fmt.Errorf("drain: %T: %w", s, err))
		}
		if !quiet {
			return s, nil
		}
	}
	return nil, nil
}

// ended says of an error whether it only is that the time is over.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotQuiet, err)
}
