package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

func scanCheckpoint(scan func(...any) error) (s store.Checkpoint, err error) {
	var at int64
	err = scan(&s.Partition, &s.Origin, &s.Position, &s.InFlightEnd, &s.CrashSuspect, &s.Session,
		&s.Stamp, &at)
	s.At = time.UnixMilli(at).UTC()
	return s, err
}

func checkpoints(rows *sql.Rows, err error) ([]store.Checkpoint, error) {
	if err != nil {
		return nil, err
	}
	return sqlexec.Collect(rows, scanCheckpoint)
}

// SyncConsumer stores the heartbeat and the checkpoints of a consumer's process, and returns those of the
// consumer. It takes the write lock of the file only if it has something new to write. If the caller requires
// a certain server, which a file does not have, SyncConsumer stores no checkpoint.
func (s *Store) SyncConsumer(ctx context.Context, a store.SyncRequest) (out store.SyncResult, err error) {
	if !a.Take && a.Server != "" {
		a.Checkpoints = nil
	}
	known, err := s.isKnown(ctx, a)
	if err == nil && known {
		return s.synced(ctx, a)
	}
	if err == nil {
		err = s.run.Alone(ctx, func(ctx context.Context, x *sqlexec.Session) (err error) {
			out, err = syncIn(ctx, x, a)
			return err
		})
	}
	if err != nil {
		return store.SyncResult{}, sqlexec.Failed("sync the consumer", err)
	}
	return out, nil
}

// synced reads the result of SyncConsumer.
func (s *Store) synced(ctx context.Context, a store.SyncRequest) (out store.SyncResult, err error) {
	if a.Heartbeat != nil {
		rows, err := s.run.Query(ctx, "Types", a.Consumer)
		if err == nil {
			out.Kinds, err = sqlexec.Collect(rows, scanKind)
		}
		if err != nil {
			return store.SyncResult{}, sqlexec.Failed("read types", err)
		}
	}
	out.Checkpoints, err = checkpoints(s.run.Query(ctx, "Checkpoints", a.Consumer))
	return out, sqlexec.Failed("read checkpoints", err)
}

func syncIn(ctx context.Context, x *sqlexec.Session, a store.SyncRequest) (out store.SyncResult, err error) {
	if a.Heartbeat != nil {
		if out.Kinds, err = beat(ctx, x, a.Consumer, *a.Heartbeat); err != nil {
			return out, err
		}
	}
	if !a.Take {
		for _, l := range a.Checkpoints {
			if _, err := x.Exec(ctx, "AdvanceCheckpoint", a.Consumer, l.Partition, l.Stamp, l.Position,
				l.InFlightEnd, l.Session, a.Stamp); err != nil {
				return out, fmt.Errorf("partition %s: %w", l.Partition, err)
			}
		}
	}
	if out.Checkpoints, err = checkpoints(x.Rows(ctx, "Checkpoints", a.Consumer)); err != nil || !a.Take {
		return out, err
	}
	for _, l := range a.Checkpoints {
		if _, err := x.Exec(ctx, "Unclaim", a.Consumer, l.Partition, a.Session); err != nil {
			return out, fmt.Errorf("partition %s: %w", l.Partition, err)
		}
		if _, err := x.Exec(ctx, "OccupyCheckpoint", a.Consumer, l.Partition, l.Origin, l.Position,
			l.InFlightEnd, a.Session, a.Stamp); err != nil {
			return out, fmt.Errorf("partition %s: %w", l.Partition, err)
		}
	}
	return out, nil
}

func rewind(ctx context.Context, x *sqlexec.Session, r *store.Rewind) error {
	n, err := x.Count(ctx, "RewindCheckpoint", r.Consumer, r.Partition, r.Origin, r.Position, r.Stamp)
	if err == nil && n != 1 {
		err = store.ErrLost
	}
	if err != nil {
		return fmt.Errorf("rewind partition %s: %w", r.Partition, err)
	}
	return nil
}
