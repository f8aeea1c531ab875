package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/pgstore"
)

// A trip is what the sagas of these comparisons carry.
type trip struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

func newTrip() trip { return trip{ID: fresh(), Customer: "customer-1", Cents: 4200} }

func tripKey(t trip) string { return t.ID }

const (
	sagaTables = `create table hand_saga (id text primary key, step int not null, status text not null, data jsonb not null,
			created_at timestamptz not null default now(), updated_at timestamptz not null default now());
		create table hand_step (saga_id text not null, step int not null, result jsonb not null, primary key (saga_id, step))`
	handStart = `insert into hand_saga (id, step, status, data) values ($1, 0, 'running', $2)`
	handFence = `update hand_saga set step = $2, status = case when $2 = 3 then 'done' else 'running' end, updated_at = now()
		where id = $1 and step = $2 - 1`
	handStep = `insert into hand_step (saga_id, step, result) values ($1, $2, '{"ok":true}')`
)

// sagas is one database in which sagas are run.
type sagas struct {
	pool *pgxpool.Pool
	db   *pgstore.Store
}

func (b *bench) sagas(ctx context.Context) (*sagas, error) {
	pool, db, err := b.skald(ctx)
	if err != nil {
		return nil, err
	}
	return &sagas{pool, db}, execAll(ctx, pool, paymentTable, sagaTables)
}

func (s *sagas) empty(ctx context.Context) error {
	return execAll(ctx, s.pool, "truncate payment, hand_saga, hand_step, skald_saga")
}

// byHand is a saga of three steps as one writes it: the start is a commit, and each step one of three round
// trips, with a handler inside.
func (s *sagas) byHand() contender {
	return contender{"by hand", s.empty, func(ctx context.Context, m *meter) error {
		return m.loop(ctx, clients, 1, func(ctx context.Context, _ int) error {
			return s.pool.AcquireFunc(ctx,
				func(c *pgxpool.Conn) error { return threeSteps(ctx, c.Conn(), newTrip()) })
		})
	}}
}

func threeSteps(ctx context.Context, c *pgx.Conn, t trip) error {
	if _, err := c.Exec(ctx, handStart, t.ID, t); err != nil {
		return err
	}
	for i := 1; i <= 3; i++ {
		b := &pgx.Batch{}
		b.Queue("begin")
		b.Queue(handFence, t.ID, i)
		if err := c.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, insertPayment, t.ID); err != nil {
			return err
		}
		b = &pgx.Batch{}
		b.Queue(handStep, t.ID, i)
		b.Queue("commit")
		if err := c.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
	}
	return nil
}

// payingTrips is a definition of three steps that insert a row each.
func payingTrips() *saga.Definition[trip] {
	pay := func(ctx context.Context, tx pgx.Tx, r saga.Run[trip]) (string, error) {
		_, err := tx.Exec(ctx, insertPayment, r.In.ID)
		return "ok", err
	}
	repay := func(ctx context.Context, tx pgx.Tx, r saga.Run[trip], _ string) error {
		_, err := tx.Exec(ctx, `delete from payment where msg_id = $1`, r.In.ID)
		return err
	}
	return saga.New("pay", &saga.Options[trip]{Key: tripKey},
		saga.Do("one", pay, repay), saga.Do("two", pay, repay), saga.Do("three", pay, repay))
}

// idling is a definition of three steps that do nothing: each waits for a time that has passed.
func idling() *saga.Definition[trip] {
	now := func(saga.Run[trip]) time.Time { return time.Time{}.Add(time.Hour) }
	return saga.New("idle", &saga.Options[trip]{Key: tripKey},
		saga.Until("one", now), saga.Until("two", now), saga.Until("three", now))
}

// through starts sagas by n clients, each when its last one has ended.
func (s *sagas) through(name string, d *saga.Definition[trip], n int) contender {
	return contender{name, s.empty, func(ctx context.Context, m *meter) error {
		e, err := saga.NewEngine[pgx.Tx](s.db, &saga.EngineOptions{Logger: quietly()}, d)
		if err != nil {
			return err
		}
		running, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- e.Run(running) }()
		err = m.loop(ctx, n, 1, func(ctx context.Context, _ int) error { return s.one(ctx, e, d) })
		stop()
		return errors.Join(err, <-ended)
	}}
}

func (s *sagas) one(ctx context.Context, e *saga.Engine[pgx.Tx], d *saga.Definition[trip]) error {
	t := newTrip()
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := saga.Start(ctx, e, tx, d, t)
		return err
	})
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	end, err := e.Await(ctx, d, t.ID)
	if err == nil && !end.Done {
		err = fmt.Errorf("saga %s did not succeed: %s %s", t.ID, end.Why, end.Reason)
	}
	return err
}

const sagaEngine = "skald's engine"

func orchestrated() comparison {
	return comparison{
		name:  "sagas",
		title: "sagas of three steps, each of which inserts a row in its own transaction, from start to end, 16 clients",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			s, err := b.sagas(ctx)
			if err != nil {
				return nil, err
			}
			peers, err := b.dbosSagas(ctx)
			return append([]contender{s.byHand(), s.through(sagaEngine, payingTrips(), clients)}, peers...),
				err
		},
		bars: []bar{
			{what: "engine ÷ by hand", of: sagaEngine, to: []string{"by hand"}, value: perSecond,
				least: 0.85},
			{what: "engine ÷ DBOS, the row in the step's transaction", of: sagaEngine,
				to: []string{dbosFused}, value: perSecond, least: 2.6},
			{what: "engine ÷ DBOS, RunAsStep", of: sagaEngine, to: []string{dbosSteps}, value: perSecond,
				least: 2.9},
			{what: "processor time of a saga, engine ÷ by hand", of: sagaEngine, to: []string{"by hand"},
				value: cpu, most: 1.2},
			{what: "commits of a saga", of: sagaEngine, value: func(r Result) float64 { return r.TxPerOp },
				most: 4},
			{what: "bytes of WAL of a saga", of: sagaEngine,
				value: func(r Result) float64 { return r.WALPerOp }, most: 3500},
		},
	}
}

func engineAlone() comparison {
	few, many := "32 in flight", "4,096 in flight"
	return comparison{
		name:  "saga-engine",
		title: "sagas of three steps that do nothing, from start to end",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			s, err := b.sagas(ctx)
			if err != nil {
				return nil, err
			}
			return []contender{s.through("1 in flight", idling(), 1), s.through(few, idling(), 32),
				s.through(many, idling(), 4096)}, nil
		},
		bars: []bar{
			{what: "32 in flight, per second", of: few, value: perSecond, least: 10_000},
			{what: "32 in flight, p50 in ms", of: few, value: p50, most: 5},
			{what: "4,096 in flight, per second", of: many, value: perSecond, least: 30_000},
			{what: "1 in flight, p50 in ms", of: "1 in flight", value: p50, most: 3},
		},
	}
}
