package sqlitestore

import (
	"context"
	"fmt"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// contradiction returns a description if the file moved, which means that it was restored or copied. In a
// moved file, the position of a shard is after the last row, or the stored shards contradict lastKnown, the
// shards that a relay had.
func contradiction(ctx context.Context, x *sqlexec.Session, lastKnown []store.Shard) (saw string, err error) {
	if err := x.Row(ctx, "Moved").Scan(&saw); err != nil || saw != "" {
		return saw, err
	}
	var end int64
	if err := x.Row(ctx, "Tip").Scan(&end); err != nil {
		return "", fmt.Errorf("last row: %w", err)
	}
	shards, err := shards(ctx, x)
	if err != nil {
		return "", err
	}
	for _, l := range shards {
		if !canHaveReturned(end, l.Cursor) {
			return fmt.Sprintf("shard %d is at row %s, but the last row is %d", l.ID, last(l.Cursor), end),
				nil
		}
		for _, k := range lastKnown {
			switch {
			case k.ID != l.ID:
			case l.Epoch < k.Epoch:
				return fmt.Sprintf("shard %d is at epoch %d, but a relay owned it at epoch %d", l.ID, l.Epoch,
					k.Epoch), nil
			case l.Epoch == k.Epoch && l.Token == k.Token && !canHaveReturned(end, k.Cursor):
				return fmt.Sprintf("a relay was at row %s in shard %d, but the last row is %d",
					last(k.Cursor), l.ID, end), nil
			}
		}
	}
	return "", nil
}

// canHaveReturned reports whether a file with this last row can have returned the ticks of c.
func canHaveReturned(last int64, c store.Cursor) bool {
	for _, tick := range []string{c.Base, c.Tip} {
		if seq, err := parseTick(tick); err != nil || seq > last {
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

// movedAway returns a description if the file moved. It stores the description, in its own transaction.
func (o *outboxTable) movedAway(ctx context.Context, owned []store.Shard) (saw string, err error) {
	err = o.run.Alone(ctx, func(ctx context.Context, x *sqlexec.Session) (err error) {
		if saw, err = contradiction(ctx, x, owned); err == nil && saw != "" {
			_, err = x.Exec(ctx, "NoteMoved", saw)
		}
		return err
	})
	return saw, err
}

// Recover resets all shards of a moved file to the oldest stored row, because a restored file may use
// numbers twice. It checks and resets in one transaction, so the second of two concurrent calls finds
// nothing to do. If audit is nil, it only checks.
func (o *outboxTable) Recover(ctx context.Context, audit *store.Audit) (done store.Recovered, err error) {
	if audit == nil {
		done.Moved, err = o.movedAway(ctx, nil)
		return done, sqlexec.Failed("recover", err)
	}
	err = o.run.Alone(ctx, func(ctx context.Context, x *sqlexec.Session) (err error) {
		if done.Moved, err = contradiction(ctx, x, nil); err != nil || done.Moved == "" {
			return err
		}
		if err := x.Row(ctx, "Rows").Scan(&done.Again); err != nil {
			return fmt.Errorf("count rows: %w", err)
		}
		n, err := x.Count(ctx, "SeatShards")
		if err != nil {
			return fmt.Errorf("free shards: %w", err)
		}
		done.Shards = int(n)
		if _, err = x.Exec(ctx, "ForgetAllRelays"); err != nil {
			return fmt.Errorf("delete old relays: %w", err)
		}
		if _, err = x.Exec(ctx, "NoteMoved", ""); err != nil {
			return err
		}
		return note(ctx, x, audit)
	})
	if done.Moved != "" {
		o.run.Wake()
	}
	return done, sqlexec.Failed("recover", err)
}
