package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	dbosFused = "DBOS, the row in the step's transaction" // the row and its checkpoint are one commit
	dbosSteps = "DBOS, RunAsStep"                         // idempotent: the step runs at least once
	dbosTable = `create table once_payment (msg_id text primary key, amount bigint not null,
		at timestamptz not null default now())`
	dbosInsert = `insert into once_payment (msg_id, amount) values ($1, 100) on conflict do nothing`
)

// A dbosBench is DBOS on a database of its own, with a pool as large as ours.
type dbosBench struct {
	pool    *pgxpool.Pool
	context dbos.Context
	source  *dbos.DataSource
}

// dbosSagas are workflows of three steps, in both forms.
func (b *bench) dbosSagas(ctx context.Context) ([]contender, error) {
	pool, err := b.database(ctx)
	if err != nil {
		return nil, err
	}
	if err := execAll(ctx, pool, paymentTable, dbosTable); err != nil {
		return nil, err
	}
	d := &dbosBench{pool: pool}
	if d.context, err = dbos.NewContext(ctx,
		dbos.Config{AppName: "bench", DatabaseURL: pool.Config().ConnString(),
			SystemDBPool: pool, Logger: quietly()}); err != nil {
		return nil, fmt.Errorf("dbos: %w", err)
	}
	if d.source, err = dbos.NewDataSource(d.context, pool); err != nil {
		return nil, fmt.Errorf("dbos: %w", err)
	}
	dbos.RegisterWorkflow(d.context, d.workflow)
	if err := dbos.Launch(d.context); err != nil {
		return nil, fmt.Errorf("dbos: %w", err)
	}
	b.later(func() error {
		dbos.Shutdown(d.context, 2*time.Second)
		return nil
	})
	return []contender{d.through(dbosFused, true), d.through(dbosSteps, false)}, nil
}

// through empties the rows before a turn. DBOS keeps its finished workflows, some thousand of them.
func (d *dbosBench) through(name string, fused bool) contender {
	return contender{name, func(ctx context.Context) error {
		return execAll(ctx, d.pool, "truncate payment, once_payment")
	}, func(ctx context.Context, m *meter) error {
		return m.loop(ctx, clients, 1, func(context.Context, int) error {
			h, err := dbos.RunWorkflow(d.context, d.workflow, fused, dbos.WithWorkflowID(fresh()))
			if err != nil {
				return err
			}
			_, err = h.GetResult()
			return err
		})
	}}
}

func (d *dbosBench) workflow(ctx dbos.Context, fused bool) (string, error) {
	id, err := dbos.GetWorkflowID(ctx)
	if err != nil {
		return "", err
	}
	for i := range 3 {
		name := dbos.WithStepName(fmt.Sprint("step", i))
		if fused {
			_, err = dbos.RunAsTransaction(ctx, d.source,
				func(ctx context.Context, tx dbos.Tx) (string, error) {
					_, err := tx.Exec(ctx, insertPayment, id)
					return "ok", err
				}, name)
		} else {
			_, err = dbos.RunAsStep(ctx, func(ctx context.Context) (string, error) {
				_, err := d.pool.Exec(ctx, dbosInsert, fmt.Sprint(id, i))
				return "ok", err
			}, name)
		}
		if err != nil {
			return "", err
		}
	}
	return "done", nil
}
