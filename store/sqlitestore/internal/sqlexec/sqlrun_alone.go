package sqlexec

import (
	"context"
	"errors"
	"time"
)

// Alone runs f in a new transaction, and commits unless f fails.
func (d *DB) Alone(ctx context.Context, f func(context.Context, *Session) error) error {
	return d.AloneFor(ctx, d.Wait, DefaultHandle, f)
}

// AloneFor does as Alone, but waits for other writers at most for the time lockWait, and rolls back the
// transaction after the time limit.
func (d *DB) AloneFor(ctx context.Context, lockWait, limit time.Duration,
	f func(context.Context, *Session) error) error {
	x, err := d.Begin(ctx, lockWait, limit)
	if err != nil {
		return err
	}
	if err := f(Quiet(ctx), x); err != nil {
		err = x.Why(err)
		return errors.Join(err, x.Close())
	}
	return x.Commit()
}
