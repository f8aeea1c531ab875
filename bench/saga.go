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
func payingTrips(opts ...saga.Option) *saga.Definition[trip] {
	pay := func(ctx context.Context, tx pgx.Tx, r saga.Run[trip]) (string, error) {
		_, err := tx.Exec(ctx, insertPayment, r.In.ID)
		return "ok", err
	}
	repay := func(ctx context.Context, tx pgx.Tx, r saga.Run[trip], _ string) error {
		_, err := tx.Exec(ctx, `delete from payment where msg_id = $1`, r.In.ID)
		return err
	}
	return saga.New("pay", &saga.Options[trip]{Key: tripKey},
		saga.Do("one", pay, repay, opts...), saga.Do("two", pay, repay, opts...),
		saga.Do("three", pay, repay, opts...))
}

// idling is a definition of three steps that do nothing: each waits for a time that has passed.
func idling() *saga.Definition[trip] {
	now := func(saga.Run[trip]) time.Time { return time.Time{}.Add(time.Hour) }
	return saga.New("idle", &saga.Options[trip]{Key: tripKey},
		saga.Until("one", now), saga.Until("two", now), saga.Until("three", now))
}

// A starter starts sagas and waits for their ends.
type starter func(ctx context.Context, e *saga.Engine[pgx.Tx], d *saga.Definition[trip]) error

// through starts sagas by n clients, each in a transaction of its own when its last one has ended.
func (s *sagas) through(name string, d *saga.Definition[trip], n int) contender {
	return s.started(name, d, n, 1, s.one)
}

// started starts sagas by n clients, each so many when its last ones have ended.
func (s *sagas) started(name string, d *saga.Definition[trip], n, each int, start starter) contender {
	return contender{name, s.empty, func(ctx context.Context, m *meter) error {
		e, err := saga.NewEngine[pgx.Tx](s.db, &saga.EngineOptions{Logger: quietly()}, d)
		if err != nil {
			return err
		}
		running, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- e.Run(running) }()
		err = m.loop(ctx, n, each, func(ctx context.Context, _ int) error { return start(ctx, e, d) })
		stop()
		return errors.Join(err, <-ended)
	}}
}

// now starts a saga without a transaction.
func (s *sagas) now(ctx context.Context, e *saga.Engine[pgx.Tx], d *saga.Definition[trip]) error {
	t := newTrip()
	if _, err := saga.Bind(e, d).StartNow(ctx, t); err != nil {
		return err
	}
	return succeeded(ctx, e, d, t)
}

// all starts n sagas in one statement.
func (s *sagas) all(n int) starter {
	return func(ctx context.Context, e *saga.Engine[pgx.Tx], d *saga.Definition[trip]) error {
		ts := make([]trip, n)
		for i := range ts {
			ts[i] = newTrip()
		}
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			_, err := saga.Bind(e, d).StartAll(ctx, tx, ts)
			return err
		})
		if err != nil {
			return fmt.Errorf("start: %w", err)
		}
		return succeeded(ctx, e, d, ts...)
	}
}

// succeeded waits for the ends of sagas.
func succeeded[TTx any](ctx context.Context, e *saga.Engine[TTx], d *saga.Definition[trip], ts ...trip) error {
	for _, t := range ts {
		end, err := saga.Bind(e, d).Await(ctx, t.ID)
		if err == nil && !end.Done {
			err = fmt.Errorf("saga %s did not succeed: %s %s", t.ID, end.Why, end.Reason)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *sagas) one(ctx context.Context, e *saga.Engine[pgx.Tx], d *saga.Definition[trip]) error {
	t := newTrip()
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := saga.Bind(e, d).Start(ctx, tx, t)
		return err
	})
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return succeeded(ctx, e, d, t)
}

const (
	sagaEngine = "skald's engine"
	sagaInTx   = "skald's engine, started in a transaction"
	sagaApart  = "skald's engine, a commit for each step"
)

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
			return append([]contender{s.byHand(), s.started(sagaEngine, payingTrips(), clients, 1, s.now),
				s.through(sagaInTx, payingTrips(), clients),
				s.started(sagaApart, payingTrips(saga.OwnCommit()), clients, 1, s.now)}, peers...), err
		},
		bars: []bar{
			{what: "engine ÷ by hand", of: sagaEngine, to: []string{"by hand"}, value: perSecond,
				least: 1.1},
			{what: "engine, started in a transaction ÷ by hand", of: sagaInTx, to: []string{"by hand"},
				value: perSecond},
			{what: "engine, a commit for each step ÷ by hand", of: sagaApart, to: []string{"by hand"},
				value: perSecond},
			{what: "engine ÷ DBOS, the row in the step's transaction", of: sagaEngine,
				to: []string{dbosFused}, value: perSecond, least: 2.3},
			{what: "engine ÷ DBOS, RunAsStep", of: sagaEngine, to: []string{dbosSteps}, value: perSecond,
				least: 2.9},
			{what: "processor time of a saga, engine ÷ by hand", of: sagaEngine, to: []string{"by hand"},
				value: cpu, most: 1.2},
			{what: "commits of a saga", of: sagaEngine, value: func(r Result) float64 { return r.TxPerOp },
				most: 2},
			{what: "bytes of WAL of a saga", of: sagaEngine,
				value: func(r Result) float64 { return r.WALPerOp }, most: 3500},
		},
	}
}

func engineAlone() comparison {
	few, many := "32 in flight", "16 times 256 in flight, StartAll"
	return comparison{
		name:  "saga-engine",
		title: "sagas of three steps that do nothing, from start to end",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			s, err := b.sagas(ctx)
			if err != nil {
				return nil, err
			}
			return []contender{s.started("1 in flight", idling(), 1, 1, s.now),
				s.started(few, idling(), 32, 1, s.now), s.started(many, idling(), 16, 256, s.all(256))}, nil
		},
		bars: []bar{
			{what: "32 in flight, per second", of: few, value: perSecond, least: 5500},
			{what: "32 in flight, p50 in ms", of: few, value: p50, most: 5},
			{what: "16 times 256 in flight, per second", of: many, value: perSecond, least: 12_000},
			{what: "1 in flight, p50 in ms", of: "1 in flight", value: p50, most: 3},
		},
	}
}
