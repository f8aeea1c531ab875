package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

// moved is what must not be: a shard beyond the last row, or what a relay knew and the file does not.
func (x *session) moved(ctx context.Context, knew []store.Shard) (saw string, err error) {
	if err := x.row(ctx, "Moved").Scan(&saw); err != nil || saw != "" {
		return saw, err
	}
	var end int64
	if err := x.row(ctx, "Tip").Scan(&end); err != nil {
		return "", fmt.Errorf("last row: %w", err)
	}
	shards, err := x.shards(ctx)
	if err != nil {
		return "", err
	}
	for _, l := range shards {
		if !reaches(end, l.Cursor) {
			return fmt.Sprintf("shard %d has come to row %s, the last one is %d", l.ID, last(l.Cursor), end),
				nil
		}
		for _, k := range knew {
			switch {
			case k.ID != l.ID:
			case l.Epoch < k.Epoch:
				return fmt.Sprintf("shard %d is at epoch %d, a relay held it at epoch %d", l.ID, l.Epoch,
					k.Epoch), nil
			case l.Epoch == k.Epoch && l.Token == k.Token && !reaches(end, k.Cursor):
				return fmt.Sprintf("a relay had come to row %s in shard %d, the last one is %d",
					last(k.Cursor), l.ID, end), nil
			}
		}
	}
	return "", nil
}

// reaches tells whether a file whose last row is end can have given out the ticks of c.
func reaches(end int64, c store.Cursor) bool {
	for _, tick := range []string{c.Base, c.Tip} {
		if seq, err := parseTick(tick); err != nil || seq > end {
			return false
		}
	}
	return true
}

func last(c store.Cursor) string {
	if c.Tip != "" {
		return c.Tip
	}
	return c.Base
}

// movedAway finds out whether the file moved. A relay's word for it is kept, in a transaction of its own.
func (s *Store) movedAway(ctx context.Context, knew []store.Shard) (saw string, err error) {
	err = s.alone(ctx, func(ctx context.Context, x *session) (err error) {
		if saw, err = x.moved(ctx, knew); err == nil && saw != "" {
			_, err = x.exec(ctx, "NoteMoved", saw)
		}
		return err
	})
	return saw, err
}

// alone does f in a transaction of its own.
func (s *Store) alone(ctx context.Context, f func(context.Context, *session) error) error {
	return s.aloneFor(ctx, defaultHandle, f)
}

// aloneFor is alone with another bound on how long f takes.
func (s *Store) aloneFor(ctx context.Context, most time.Duration,
	f func(context.Context, *session) error) error {
	x, err := s.begin(ctx, s.wait, most)
	if err != nil {
		return err
	}
	if err := f(quiet(ctx), x); err != nil {
		err = x.why(err)
		return errors.Join(err, x.close())
	}
	defer x.end()
	x.timer.Stop()
	return x.commit()
}

// Recover starts all shards at the oldest row that is kept: a file that went back has given numbers out
// twice. It looks in the transaction in which it seats: of two at the same time the second finds that nothing
// moved.
func (s *Store) Recover(ctx context.Context, note *store.Audit) (done store.Recovered, err error) {
	if note == nil {
		done.Moved, err = s.movedAway(ctx, nil)
		return done, failedOr("recover", err)
	}
	err = s.alone(ctx, func(ctx context.Context, x *session) (err error) {
		if done.Moved, err = x.moved(ctx, nil); err != nil || done.Moved == "" {
			return err
		}
		if err := x.row(ctx, "Rows").Scan(&done.Again); err != nil {
			return fmt.Errorf("count rows: %w", err)
		}
		n, err := x.count(ctx, "SeatShards")
		if err != nil {
			return fmt.Errorf("free shards: %w", err)
		}
		done.Shards = int(n)
		if _, err = x.exec(ctx, "ForgetAllRelays"); err != nil {
			return fmt.Errorf("forget relays: %w", err)
		}
		if _, err = x.exec(ctx, "NoteMoved", ""); err != nil {
			return err
		}
		return x.note(ctx, note)
	})
	if done.Moved != "" {
		s.waker.wake()
	}
	return done, failedOr("recover", err)
}

func failedOr(act string, err error) error {
	if err == nil {
		return nil
	}
	return failed(act, err)
}
