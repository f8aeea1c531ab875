package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

const (
	emptyingLeaf = "emptying a leaf"
	deletingRows = "DELETE, 5,000 rows at a time, and VACUUM"

	// readRows are of a day of which no row is kept any more.
	readRows = `insert into skald_outbox (topic, key, type, data, slot, bucket)
		select 'orders', 'order-' || i % 10000, 'order.placed', '{"order":' || i || ',"cents":4200,"note":"' || repeat('x', 200) || '"}',
			(floor(date_part('epoch', now()) / 86400)::bigint + 2) % 10, i * 7919 % 1024
		from generate_series(0::bigint, $1::bigint - 1) as i`
	handOutbox = `create table hand_outbox (seq bigint generated always as identity primary key, topic text not null, key text, type text not null,
		data text, time timestamptz not null default now(), published_at timestamptz)`
	handRows = `insert into hand_outbox (topic, key, type, data, published_at)
		select topic, key, type, data, now() from skald_outbox order by seq`
	deletePage = `delete from hand_outbox where ctid = any(array(select ctid from hand_outbox where published_at is not null order by seq limit 5000))`
)

func purges() comparison {
	during := func(what string) []bar {
		return []bar{
			{what: what + ", s", of: what, value: func(r Result) float64 { return r.Seconds }},
			{what: what + ", bytes of WAL for each row", of: what,
				value: func(r Result) float64 { return r.WALPerOp }},
			{what: "the longest write, ms, while " + what, of: "write, while " + what,
				value: extra("longest")},
			{what: "a write, p99, while " + what + " ÷ before", of: "write, while " + what,
				to: []string{"write, before"}, value: p99},
		}
	}
	return comparison{
		name:   "outbox-purge",
		title:  "-marks published rows are removed from the outbox, and from one that is written by hand, while 800 transactions/s write to the outbox",
		script: purge,
		bars:   append(during(emptyingLeaf), during(deletingRows)...),
	}
}

// purge fills the outbox with rows of a day that is over, and a table written by hand with the same rows. A
// relay reads the first one, and both are emptied under a steady load.
func purge(ctx context.Context, b *bench, each func(Result)) error {
	pool, db, err := b.skald(ctx)
	if err != nil {
		return err
	}
	for from := 0; from < b.marks; from += 100_000 {
		if _, err := pool.Exec(ctx, readRows, min(100_000, b.marks-from)); err != nil {
			return fmt.Errorf("fill the outbox: %w", err)
		}
	}
	if err := execAll(ctx, pool, handOutbox, handRows, "vacuum analyze", "checkpoint"); err != nil {
		return err
	}
	to := newSink(nil, b.marks)
	stop, ended := start(ctx, relay.New(db, to, &relay.Options{Logger: quietly()}))
	select {
	case <-to.full:
	case err := <-ended:
		return fmt.Errorf("the relay ended: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
	stop()
	if err := <-ended; err != nil {
		return err
	}
	s := &street{pool: pool, out: outbox.New[pgx.Tx](db, nil)}
	ctx, stop = context.WithCancel(ctx)
	defer stop()
	wrote := make(chan error, heldWriters)
	for w := range heldWriters {
		go func() { wrote <- s.write(ctx, int64(w)) }()
	}
	if err := s.purges(ctx, b, db, each); err != nil {
		return err
	}
	stop()
	var errs []error
	for range heldWriters {
		errs = append(errs, <-wrote)
	}
	return errors.Join(errs...)
}

func (s *street) purges(ctx context.Context, b *bench, db *pgstore.Store, each func(Result)) error {
	if err := s.beside(ctx, b, "before", each, nil); err != nil {
		return err
	}
	err := s.beside(ctx, b, emptyingLeaf, each, func(ctx context.Context) error {
		did, err := db.Maintain(ctx, store.Maintain{})
		if err == nil && (did.Rows == 0 || len(did.Left) > 0) {
			err = fmt.Errorf("the leaf was not emptied: %+v", did)
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.beside(ctx, b, deletingRows, each, func(ctx context.Context) error {
		for {
			tag, err := s.pool.Exec(ctx, deletePage)
			if err != nil {
				return err
			}
			if tag.RowsAffected() == 0 {
				return execAll(ctx, s.pool, "vacuum hand_outbox")
			}
		}
	})
}

// beside measures work, and the writes for as long as it takes and no shorter than -dur.
func (s *street) beside(ctx context.Context, b *bench, what string, each func(Result),
	work func(context.Context) error) error {
	s.mu.Lock()
	s.writes = nil
	s.mu.Unlock()
	name := "write, " + what
	began := b.probe.snap(ctx)
	if work != nil {
		m := meter{b: b, r: Result{Comparison: "outbox-purge", Name: what, Concurrency: 1}, a: began}
		if err := work(ctx); err != nil {
			return err
		}
		m.end(ctx, b.marks)
		each(m.r)
		name = "write, while " + what
	}
	select {
	case <-time.After(b.dur - time.Since(began.at)):
	case <-ctx.Done():
		return ctx.Err()
	}
	m := meter{b: b, r: Result{Comparison: "outbox-purge", Name: name, Concurrency: heldWriters}, a: began}
	s.mu.Lock()
	m.lat = s.writes
	s.writes = nil
	s.mu.Unlock()
	m.end(ctx, len(m.lat))
	m.r.Extra = map[string]float64{"longest": quantile(m.lat, 1)}
	each(m.r)
	return nil
}
