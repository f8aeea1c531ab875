package sqlitestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/skald-go/skald/store"
)

func (x *session) setAside(ctx context.Context, a *store.Aside) error {
	args, err := rowArgs(&a.Message, a.Bucket)
	if err != nil {
		return err
	}
	source, id, rest, bucket := args[0], args[1], args[2:len(args)-1], args[len(args)-1]
	all := append([]any{a.Seq, bucket, id, source}, rest...)
	all = append(all, a.Attempts, clip(a.Why), a.Due.Milliseconds())
	if _, err := x.exec(ctx, "SetAside", all...); err != nil {
		return fmt.Errorf("set row aside: %w", err)
	}
	return nil
}

// Held lists the keys that have rows set aside.
func (s *Store) Held(ctx context.Context, lanes []int) ([]store.Held, error) {
	list, err := json.Marshal(lanes)
	if err != nil {
		return nil, fmt.Errorf("held: %w", err)
	}
	rows, err := s.query(ctx, "Held", string(list))
	if err != nil {
		return nil, failed("held", err)
	}
	held, err := collect(rows, func(scan func(...any) error) (h store.Held, err error) {
		err = scan(&h.Topic, &h.Key, &h.Lane)
		if h.Key == nil {
			h.Key = []byte{}
		}
		return h, err
	})
	if err != nil {
		return nil, failed("held", err)
	}
	return held, nil
}

// Retry reads rows that were set aside and are due.
func (s *Store) Retry(ctx context.Context, lanes []int, limit int) (out []store.Aside, err error) {
	list, err := json.Marshal(lanes)
	if err != nil {
		return nil, fmt.Errorf("retry: %w", err)
	}
	rows, err := s.query(ctx, "Retry", string(list), limit)
	if err != nil {
		return nil, failed("retry", err)
	}
	defer func() {
		if err = errors.Join(err, rows.Close()); err != nil {
			out, err = nil, failed("retry", err)
		}
	}()
	for rows.Next() {
		var a store.Aside
		if a.Row, err = scanRow(rows, &a.Attempts, &a.Why); err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, rows.Err()
}
