package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	riverPays  = "river, the same in one transaction with its completion"
	riverLater = "river, its completions in batches of its own, behind it: at least once"
)

// A paying job does what the handlers of the inboxes do.
type paying struct {
	ID    string `json:"id"`
	Order order  `json:"order"`
}

func (paying) Kind() string { return "paying" }

type payer struct {
	river.WorkerDefaults[paying]
	t     *till
	later bool // River completes the job, as it does by default
	done  *atomic.Int64
}

// Work inserts the row and the event and, unless that is River's to do, completes the job, all in one
// transaction, as its documentation has it.
func (p *payer) Work(ctx context.Context, job *river.Job[paying]) error {
	err := pgx.BeginFunc(ctx, p.t.pool, func(tx pgx.Tx) error {
		args, err := p.t.event(job.Args.Order)
		if err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(insertPayment, job.Args.ID)
		b.Queue(insertPlain, args...)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		if p.later {
			return nil
		}
		_, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
	if err == nil {
		p.done.Add(1)
	}
	return err
}

// riverPays measures River's workers with the work of a handler; what is found ready is not measured.
func (t *till) riverPays(ctx context.Context, b *bench, name string, most int) (contender, error) {
	migrator, err := rivermigrate.New(riverpgxv5.New(t.pool), nil)
	if err != nil {
		return contender{}, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return contender{}, fmt.Errorf("migrate river: %w", err)
	}
	logger := slog.New(slog.DiscardHandler)
	ready := func(ctx context.Context) error {
		if err := t.empty(ctx); err != nil {
			return err
		}
		if err := execAll(ctx, t.pool, "truncate river_job"); err != nil {
			return err
		}
		return enqueue(ctx, t.pool, b.peerRows, logger)
	}
	return contender{name, ready, func(ctx context.Context, m *meter) error {
		var done atomic.Int64
		known := river.NewWorkers()
		river.AddWorker(known, &payer{t: t, later: name == riverLater, done: &done})
		cl, err := river.NewClient(riverpgxv5.New(t.pool), &river.Config{
			FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond, Logger: logger,
			Workers: known,
			Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: most}},
		})
		if err != nil {
			return err
		}
		m.r.Concurrency = most
		if err := m.begin(ctx); err != nil {
			return err
		}
		if err := cl.Start(ctx); err != nil {
			return err
		}
		m.settled(ctx, &done, b.peerRows)
		return cl.Stop(ctx)
	}}, nil
}

func enqueue(ctx context.Context, pool *pgxpool.Pool, n int, logger *slog.Logger) error {
	cl, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: logger})
	if err != nil {
		return err
	}
	for at := 0; at < n; at += 1000 {
		jobs := make([]river.InsertManyParams, min(1000, n-at))
		for i := range jobs {
			jobs[i] = river.InsertManyParams{Args: paying{ID: fresh(), Order: newOrder(int64(at + i))}}
		}
		if _, err := cl.InsertManyFast(ctx, jobs); err != nil {
			return fmt.Errorf("insert jobs: %w", err)
		}
	}
	return execAll(ctx, pool, "vacuum analyze river_job")
}
