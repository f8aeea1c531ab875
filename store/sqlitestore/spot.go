package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

func scanSpot(scan func(...any) error) (s store.Spot, err error) {
	var at int64
	err = scan(&s.Lane, &s.Origin, &s.Position, &s.Reach, &s.Suspect, &s.Life, &s.Note, &at)
	s.At = time.UnixMilli(at).UTC()
	return s, err
}

// spotted reads what query gives. A file has no server that could be another one.
func spotted(rows *sql.Rows, err error) (out store.Spots, _ error) {
	if err == nil {
		out.Spots, err = collect(rows, scanSpot)
	}
	return out, err
}

// Spots tells how a consumer stands.
func (s *Store) Spots(ctx context.Context, consumer string) (store.Spots, error) {
	out, err := spotted(s.query(ctx, "Spots", consumer))
	return out, failedOr("read spots", err)
}

// Occupy notes who has lanes.
func (s *Store) Occupy(ctx context.Context, consumer, life, note string, lanes []store.Spot) (out store.Spots, err error) {
	err = s.alone(ctx, func(ctx context.Context, x *session) (err error) {
		if out, err = spotted(x.rows(ctx, "Spots", consumer)); err != nil {
			return err
		}
		for _, l := range lanes {
			if _, err := x.exec(ctx, "Unclaim", consumer, l.Lane, life); err != nil {
				return fmt.Errorf("lane %s: %w", l.Lane, err)
			}
			if _, err := x.exec(ctx, "OccupySpot", consumer, l.Lane, l.Origin, l.Position, l.Reach, life, note); err != nil {
				return fmt.Errorf("lane %s: %w", l.Lane, err)
			}
		}
		return nil
	})
	if err != nil {
		return store.Spots{}, failed("occupy lanes", err)
	}
	return out, nil
}

// Advance stores how far lanes have come.
func (s *Store) Advance(ctx context.Context, consumer, server, note string, lanes []store.Spot) (out store.Spots, err error) {
	if len(lanes) == 0 || server != "" {
		return s.Spots(ctx, consumer)
	}
	err = s.alone(ctx, func(ctx context.Context, x *session) (err error) {
		for _, l := range lanes {
			if _, err := x.exec(ctx, "AdvanceSpot", consumer, l.Lane, l.Note, l.Position, l.Reach, l.Life, note); err != nil {
				return fmt.Errorf("lane %s: %w", l.Lane, err)
			}
		}
		out, err = spotted(x.rows(ctx, "Spots", consumer))
		return err
	})
	if err != nil {
		return store.Spots{}, failed("advance lanes", err)
	}
	return out, nil
}

func (x *session) rewind(ctx context.Context, r *store.Rewind) error {
	n, err := x.count(ctx, "RewindSpot", r.Consumer, r.Lane, r.Origin, r.Position, r.Note)
	if err == nil && n != 1 {
		err = store.ErrLost
	}
	if err != nil {
		return fmt.Errorf("rewind lane %s: %w", r.Lane, err)
	}
	return nil
}
