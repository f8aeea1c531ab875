package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
)

const (
	badOf   = 33                    // one key in so many is bad
	badWait = 50 * time.Millisecond // the handler's own timeout, which cuts its statement

	goodBesideBad = ", beside bad keys"
)

// bad reports whether messages of the key fail each time.
func bad(key []byte) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(string(key), "order-"))
	return err == nil && n%badOf == 0
}

// failing is each(size, 0) with a handler that fails for bad keys by what may pass.
func (t *till) failing(size int) func(*feed) *inbox.Inbox[pgx.Tx] {
	return func(f *feed) *inbox.Inbox[pgx.Tx] {
		in, out := t.batches(f, size)
		value := newOrder(1)
		in.Handle("orders", "order.placed", func(ctx context.Context, tx pgx.Tx, m skald.Message) error {
			if bad(m.Key) {
				ctx, stop := context.WithTimeout(ctx, badWait)
				defer stop()
				_, err := tx.Exec(ctx, "select pg_sleep(10)")
				return errors.Join(errors.New("the statement is slow"), err)
			}
			if _, err := tx.Exec(ctx, insertPayment, m.ID); err != nil {
				return err
			}
			return out.Write(ctx, tx, taken.New(string(m.Key), value))
		})
		return in
	}
}

func besideBadKeys() comparison {
	figure := func(of string) bar {
		return bar{what: of + ": good messages beside bad keys ÷ without bad keys", of: of + goodBesideBad,
			to: []string{of}, value: perSecond, least: 0.9}
	}
	return comparison{
		name: "bad-keys",
		title: fmt.Sprintf("good messages while one key in %d fails each time, after %v, by a statement that is cut",
			badOf, badWait),
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			t, err := b.till(ctx)
			if err != nil {
				return nil, err
			}
			return []contender{
				t.turn(single, t.each(1, 0)), t.turn(single+goodBesideBad, t.failing(1)),
				t.turn(batched, t.each(batch, 0)), t.turn(batched+goodBesideBad, t.failing(batch)),
			}, nil
		},
		bars: []bar{figure(single), figure(batched)},
	}
}
