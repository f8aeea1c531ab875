package exec

import (
	"context"
	"errors"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// A message that fails by what may pass waits at its place for the first attempts, since a deadlock or a
// failover are over by then. Then it is parked, with the time of its first failure, so that neither a restart
// nor another instance begins to count anew. Where many wait already, it is parked at once.
const (
	inPlace     = 3
	mostInPlace = 16
)

// suspectShare is which part of the time a message may take that stops all others while it runs.
const suspectShare = 20

// stays reports whether e waits at its place after a failure by what may pass, or in the store as it is: also
// while the database is away, where an attempt says nothing of the message.
func (x *Executor[TTx]) stays(e *partition.Entry, err error) bool {
	_, up := x.o.Up()
	if e.Parked != nil || !up {
		return !up
	}
	if e.First.At.IsZero() {
		e.First = store.Failure{At: x.o.Now(), Why: err.Error(), Host: x.o.Host}
	}
	return e.Again+1 < inPlace && x.o.InPlace() < mostInPlace
}

// stopped reports whether a handler was told to stop: then it has not failed.
func stopped(ctx context.Context, err error) bool {
	return ctx.Err() != nil && !errors.Is(err, failure.ErrTimeout) &&
		!errors.Is(context.Cause(ctx), failure.ErrTimeout)
}

// apart returns wait, and more for a message that is run alone: the others go on in between.
func (x *Executor[TTx]) apart(e *partition.Entry, wait time.Duration) time.Duration {
	if !e.Alone {
		return wait
	}
	return max(wait, (suspectShare-1)*time.Since(e.Begun))
}
