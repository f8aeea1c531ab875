package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	bounds = `select set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true),
		set_config('synchronous_commit', 'on', true)`
	boundsAndKey = `select set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true),
		set_config('synchronous_commit', 'on', true), pg_advisory_xact_lock(hashtextextended($3, 0))`
	notParked = ` where not exists (select from skald_parked where consumer = 'payment' and source = '/shop' and id = $1::text)
		and not exists (select from skald_parked where consumer = 'payment' and key = $3::bytea and blocks_key)`
)

// ownTables is threeTrips in Skald's own tables and with its bounds: what the library costs, without what its
// schema does.
func (t *till) ownTables(ctx context.Context, c *pgx.Conn, id string, value order) error {
	b := &pgx.Batch{}
	b.Queue("begin")
	b.Queue(bounds, "5000", "65000")
	b.Queue("insert into skald_mark (consumer, source, id, outcome) values ('payment', '/shop', $1, 1) on conflict do nothing", id)
	return t.marked(ctx, c, b, id, value)
}

// sameWork is ownTables with all that an intake of Skald's does for its promises: the key is locked, so that
// nobody parks one of its messages meanwhile; the mark keeps a fingerprint of the payload, and is made only
// where neither the message nor one of its key is parked; its handler has a limit of time, and its panic is
// an error.
func (t *till) sameWork(ctx context.Context, c *pgx.Conn, id string, value order) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	print := sha256.Sum256(t.data)
	b := &pgx.Batch{}
	b.Queue("begin")
	b.Queue(boundsAndKey, "5000", "65000", "payment "+id)
	b.Queue("insert into skald_mark (consumer, source, id, outcome, fingerprint) select 'payment', '/shop', $1::text, 1, $2::bigint"+
		notParked+" on conflict do nothing", id, int64(binary.BigEndian.Uint64(print[:])), []byte(id))
	return t.marked(ctx, c, b, id, value)
}

// marked sends what begins a message by hand, its mark last, and goes on behind that.
func (t *till) marked(ctx context.Context, c *pgx.Conn, b *pgx.Batch, id string, value order) error {
	br := c.SendBatch(ctx, b)
	for range b.Len() - 1 {
		if _, err := br.Exec(); err != nil {
			return errors.Join(err, br.Close())
		}
	}
	tag, err := br.Exec()
	if err = errors.Join(err, br.Close()); err != nil {
		return err
	}
	return t.finish(ctx, c, tag, id, value, insertOwn, ownArgs)
}
