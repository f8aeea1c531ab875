package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/saga"
)

// crowd clones the saga that ended and the one that only began: so many that are finished, a tenth of that
// many that wait, every other one of them for a time. All are of the definition that is measured, so they lie
// in its part of each index.
const crowd = `insert into skald_saga (fingerprint, started_at, name, key, id, hash, input, origin, session, due, status, stuck, paused, version, changed_at,
		failed, step, error, state, ended_at)
	select s.fingerprint, now() - interval '1 hour', s.name, s.status || '-' || i, skald_uuid7()::text, s.hash, s.input, s.origin, '',
		case when s.ended_at is null and i % 2 = 0 then now() + interval '1 day' end, s.status, false, false, s.version, now() - interval '1 hour',
		0, s.step, '', s.state, case when s.ended_at is not null then now() - interval '1 hour' end
	from skald_saga as s, generate_series(1::bigint, $1::bigint) as i where s.ended_at is not null or i <= $1::bigint / 10`

// fillCrowd leaves so many finished sagas, and the tenth of that waiting.
func (s *sagas) fillCrowd(ctx context.Context, d *saga.Definition[trip], finished int) error {
	e, err := saga.NewEngine[pgx.Tx](s.db, &saga.EngineOptions{Logger: quietly()}, d)
	if err != nil {
		return err
	}
	begin := func() error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			_, err := saga.Bind(e, d).Start(ctx, tx, newTrip())
			return err
		})
	}
	if err := begin(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	for busy := true; busy && err == nil; {
		busy, err = e.Step(ctx)
	}
	if err != nil {
		return fmt.Errorf("run a saga: %w", err)
	}
	if err := begin(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	// What was cloned goes: the one that began is due.
	if _, err := s.pool.Exec(ctx, crowd, finished); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	var done, waiting int
	err = s.pool.QueryRow(ctx,
		`with gone as (delete from skald_saga where key not like 'done-%' and key not like 'running-%')
		select count(*) filter (where ended_at is not null and key like 'done-%'), count(*) filter (where key like 'running-%') from skald_saga`).Scan(&done, &waiting)
	if err != nil || done != finished || waiting != finished/10 {
		return fmt.Errorf("%d sagas are finished and %d wait, not %d and %d: %w", done, waiting, finished,
			finished/10, err)
	}
	return execAll(ctx, s.pool, "vacuum analyze skald_saga")
}

// crowded compares sagas beside many others with sagas in empty tables, each in a database of its own.
func crowded() comparison {
	const none, many = "empty tables", "beside finished and waiting ones"
	return comparison{
		name:  "sagas-crowded",
		title: "sagas of three steps that insert a row each, beside -sagas-finished finished ones and a tenth of that waiting, and alone; 16 clients",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			free, err := b.sagas(ctx)
			if err != nil {
				return nil, err
			}
			full, err := b.sagas(ctx)
			if err != nil {
				return nil, err
			}
			if err := full.fillCrowd(ctx, payingTrips(), b.sagasFinished); err != nil {
				return nil, err
			}
			beside := full.through(many, payingTrips(), clients)
			beside.ready = func(ctx context.Context) error {
				return execAll(ctx, full.pool, "truncate payment")
			}
			return []contender{free.through(none, payingTrips(), clients), beside}, nil
		},
		bars: []bar{
			{what: "time of a saga, beside many ÷ alone", of: many, to: []string{none},
				value: cost, most: 1.2},
			{what: "processor time of a saga, beside many ÷ alone", of: many, to: []string{none},
				value: cpu, most: 1.2},
			{what: "bytes of WAL of a saga, beside many", of: many,
				value: func(r Result) float64 { return r.WALPerOp }},
		},
	}
}
