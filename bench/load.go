package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/outbox"
)

const keys = 10_000 // how many keys a backlog has

// An order is the payload: about 250 bytes of JSON, which do not compress to nothing.
type order struct {
	ID  string `json:"order_id"`
	Pad string `json:"pad"`
}

func newOrder(n int64) order {
	const hex = "0123456789abcdef"
	pad := make([]byte, 0, 220)
	for len(pad) < cap(pad) {
		for x, i := rand.Uint64(), 0; i < 16 && len(pad) < cap(pad); i++ {
			pad = append(pad, hex[x&15])
			x >>= 4
		}
	}
	return order{ID: fmt.Sprintf("%010d", n), Pad: string(pad)}
}

func orderKey(n int64) string { return "order-" + strconv.FormatInt(n%keys, 10) }

// fill writes rows into the outbox as an application would, 100 in a transaction, from two clients.
func fill(ctx context.Context, pool *pgxpool.Pool, out *outbox.Outbox[pgx.Tx], topic string, rows int,
	ps *parents) error {
	const batch, writers = 100, 2
	placed := skald.Event[order]{Topic: topic, Type: "order.placed"}
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for at := w * batch; at < rows && errs[w] == nil; at += writers * batch {
				drafts := make([]skald.Draft, 0, batch)
				for n := at; n < min(at+batch, rows); n++ {
					drafts = append(drafts, placed.New(orderKey(int64(n)), newOrder(int64(n))))
				}
				errs[w] = pgx.BeginFunc(ctx, pool,
					func(tx pgx.Tx) error { return out.Write(ps.in(ctx), tx, drafts...) })
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("fill outbox: %w", err)
		}
	}
	return execAll(ctx, pool, "vacuum analyze skald_outbox")
}

// copyRows fills a hand-made table with what the outbox holds, 100 rows in a transaction.
func copyRows(ctx context.Context, pool *pgxpool.Pool, into string, rows int) error {
	var first, last int64
	if err := pool.QueryRow(ctx,
		"select coalesce(min(seq), 0), coalesce(max(seq), 0) from skald_outbox").Scan(&first,
		&last); err != nil {
		return fmt.Errorf("copy rows: %w", err)
	}
	last = min(last, first+int64(rows)-1)
	for from := first; from <= last; from += 50_000 {
		b := &pgx.Batch{}
		for at := from; at < min(from+50_000, last+1); at += 100 {
			b.Queue("begin")
			b.Queue(into+" from skald_outbox where seq >= $1 and seq < $2 order by seq", at,
				min(at+100, last+1))
			b.Queue("commit")
		}
		if err := pool.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("copy rows: %w", err)
		}
	}
	return nil
}
