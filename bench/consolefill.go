package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// Each takes how many rows it is to write, as $1. Parked messages and sagas are clones of one that is there.
const (
	manyRows = `insert into skald_outbox (topic, key, type, data, bucket)
		select 'orders', 'order-' || i % 100000, 'order.placed', '{"order":' || i || ',"cents":4200}', i * 7919 % 1024 from generate_series(0::bigint, $1::bigint - 1) as i`
	manyMarks = `insert into skald_mark (consumer, source, id, outcome, fingerprint)
		select 'payment', '/shop', skald_uuid7()::text, 1, i from generate_series(0::bigint, $1::bigint - 1) as i`
	manyKept = `insert into skald_parked (consumer, source, id, key_lock, key, topic, type, data, envelope, bytes, partition, position, fault, attempts, due,
		waiting, blocks_key, since, first_at, first_error, first_host, last_at, last_error, last_host, dead_at, kind, fingerprint, stack, version, running_count, running_bytes)
	select case when i % 10 = 0 then 'shipping' else p.consumer end, p.source, n.id, hashtextextended(n.key, 0), convert_to(n.key, 'UTF8'), p.topic, p.type, p.data,
		convert_to(replace(convert_from(p.envelope, 'UTF8'), p.id, n.id), 'UTF8'), p.bytes, p.partition, i, p.fault,
		case when not n.dead and i % 4 > 1 then 0 else 5 end, now() + interval '1 hour', not n.dead and i % 4 > 1, true, now() - interval '1 hour',
		p.first_at, p.first_error, p.first_host, p.last_at, p.last_error, p.last_host,
		case when n.dead then now() end, case when n.dead then 'attempts' else '' end, case when n.dead then lpad(to_hex(i / 2 % 50), 12, '0') else '' end, '', '', i / 200000 + 1, (i / 200000 + 1) * p.bytes
	from (select * from skald_parked limit 1) as p cross join (
		select i, skald_uuid7()::text as id, 'order-' || i / 4 % 200000 as key, i % 2 = 1 as dead from generate_series(0::bigint, $1::bigint - 1) as i
	) as n order by n.i`
	manySagas = `insert into skald_saga (fingerprint, started_at, name, key, id, hash, input, origin, session, due, status, stuck, paused, version, changed_at, failed,
		step, error, state, since, retry, ended_at)
	select s.fingerprint, now() - i * interval '1 second', s.name, 'order-' || i, 'saga-' || i, s.hash, s.input, s.origin, '',
		case when i % 10 = 2 then now() + interval '1 hour' end, case when i % 10 < 3 then 'running' else 'done' end, i % 10 = 1, false, s.version, now(),
		case when i % 10 = 2 then 3 else 0 end, s.step, case when i % 10 < 3 then s.error else '' end, s.state,
		case when i % 10 = 2 then now() - interval '1 minute' end, case when i % 10 = 2 then now() + interval '1 hour' end, case when i % 10 > 2 then now() end
	from skald_saga as s, generate_series(2::bigint, $1::bigint + 1) as i`
	manySteps = `insert into skald_step (consumer, saga, step, occurrence, state, source, id, begun)
		select 'payment', 'order-' || i, 'charge', '', 1, '/shop', 'm-' || i, now() from generate_series(0::bigint, $1::bigint - 1) as i`
	manyTracked = `insert into skald_tracked (key, flow, state, due, drift, body)
		select 'order-' || i, 'order', case when i % 3 = 0 then 'running' else 'done' end, now() + (i % 1000 - 10) * interval '1 minute', 0, '{}'
		from generate_series(0::bigint, $1::bigint - 1) as i`
	manyEntities = `insert into skald_entity (space, key, version)
		select 'order', convert_to('order-' || i, 'UTF8'), 1 from generate_series(0::bigint, $1::bigint - 1) as i`
	manyAudits = `insert into skald_audit (author, reason, action, consumer, source, id, run)
		select 'ann', 'the bank is back', 'redrive', 'payment', '/shop', 'm-' || i, case when i % 2 = 0 then 'run-' || i / 1000 else '' end
		from generate_series(0::bigint, $1::bigint - 1) as i`
	manyApart = `insert into skald_quarantine (consumer, source, id, fingerprint, cause, topic, type, message)
		select 'payment', '/shop', 'm-' || i, i, -1 - i % 2, 'orders', 'order.placed', '{}' from generate_series(0::bigint, $1::bigint - 1) as i`
)

// fillPages writes so many rows in all into the tables that pages read.
func fillPages(ctx context.Context, pool *pgxpool.Pool, rows int) error {
	if _, err := pgstore.Migrate(ctx, pool, &pgstore.MigrateOptions{Source: "/bench"}); err != nil {
		return fmt.Errorf("make tables: %w", err)
	}
	db := pgstore.New(pool, nil)
	if err := seedPages(ctx, pool, db); err != nil {
		return err
	}
	const parts = 40
	for _, f := range []struct {
		sql  string
		part int
	}{{manyRows, 10}, {manyMarks, 10}, {manyKept, 8}, {manySagas, 4}, {manySteps, 2}, {manyTracked, 2},
		{manyEntities, 2}, {manyAudits, 1}, {manyApart, 1}} {
		n := rows * f.part / parts
		if f.sql == manyApart { // of a consumer no more are kept
			n = min(n, 10_000)
		}
		if _, err := pool.Exec(ctx, f.sql, n); err != nil {
			return fmt.Errorf("fill: %.40q: %w", f.sql, err)
		}
	}
	return execAll(ctx, pool, "vacuum analyze")
}

// seedPages makes what is cloned: a message that failed, and a saga that is stuck.
func seedPages(ctx context.Context, pool *pgxpool.Pool, db *pgstore.Store) error {
	at := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	m := skald.Message{ID: "01920f5e-7a3c-7000-8000-000000000000", Source: "/bench", Topic: "orders",
		Type: "order.placed", Key: []byte("order-0"), CorrelationID: "order-0",
		ContentType: "application/json", Data: []byte(`{"order":"order-0","cents":4200}`), Time: at}
	failure := store.Failure{At: at, Why: "dial tcp 10.3.4.7:443: connect: no route to host",
		Host: "payment-6f7c9"}
	_, err := db.Apply(ctx,
		store.Effect{Park: &store.Park{Parked: store.Parked{Consumer: "payment",
			Identity: store.Identity{Source: m.Source, ID: m.ID}, Message: m,
			Attempts: 5, Due: time.Hour, First: failure, Last: failure}}})
	if err != nil {
		return fmt.Errorf("park: %w", err)
	}
	if _, err := db.SyncConsumer(ctx, store.SyncRequest{Consumer: "payment",
		Heartbeat: &store.Heartbeat{Own: []store.Kind{{Topic: "orders", Type: "order.placed"}}}}); err != nil {
		return fmt.Errorf("sync the consumer: %w", err)
	}
	pay := saga.Do("pay",
		func(context.Context, pgx.Tx, saga.Run[string]) (string, error) { return "paid", nil }, nil,
		saga.Pivot())
	ship := saga.Do("ship", func(context.Context, pgx.Tx, saga.Run[string]) (string, error) {
		return "", skald.Permanent(errors.New("no van"))
	}, nil)
	d := saga.New("shipment", &saga.Options[string]{Key: func(s string) string { return s }}, pay, ship)
	e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: quietly()}, d)
	if err != nil {
		return fmt.Errorf("make an engine: %w", err)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := saga.Bind(e, d).Start(ctx, tx, "order-1")
		return err
	})
	for busy := true; busy && err == nil; {
		busy, err = e.Step(ctx)
	}
	if err != nil {
		return fmt.Errorf("run a saga: %w", err)
	}
	return nil
}
