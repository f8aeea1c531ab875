package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store/pgstore"
)

// The ways in which Skald runs in a real estate, and the one that they are held against.
const (
	alone = "as the owner, telemetry off"
	roled = "under roles"
	told  = "telemetry on"
	// parent is a trace context, but for its last digit: is it sampled?
	parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0"
)

// parents are the trace contexts of messages, one in each of which so many is sampled.
type parents struct {
	each uint64
	n    atomic.Uint64
}

// next is that of the next message; "" if there is nobody to trace it.
func (p *parents) next() string {
	switch {
	case p == nil:
		return ""
	case p.n.Add(1)%p.each == 0:
		return parent + "1"
	default:
		return parent + "0"
	}
}

// in is the context in which the next message is written.
func (p *parents) in(ctx context.Context) context.Context {
	next := p.next()
	if next == "" {
		return ctx
	}
	t, _ := trace.TraceIDFromHex(next[3:35])
	s, _ := trace.SpanIDFromHex(next[36:52])
	return trace.ContextWithSpanContext(ctx,
		trace.NewSpanContext(trace.SpanContextConfig{TraceID: t, SpanID: s,
			TraceFlags: trace.TraceFlags(next[54] - '0')}))
}

// A way is one of them.
type way struct {
	name string
	pool *pgxpool.Pool
	db   *pgstore.Store

	outbox  outbox.Options
	relay   relay.Options
	inbox   inbox.Options
	parents *parents // of what is written; nil: none
}

// ways are all of them on one database; roles are those that a process has, here one that does this work.
func (b *bench) ways(ctx context.Context, pool *pgxpool.Pool, roles ...string) ([]way, error) {
	under, err := b.as(ctx, pool, roles...)
	if err != nil {
		return nil, err
	}
	seen := b.watched(ctx)
	return []way{
		{name: alone, pool: pool, db: pgstore.New(pool, nil), relay: plainRelay()},
		{name: roled, pool: under, db: pgstore.New(under, nil), relay: plainRelay()},
		{
			name: told, pool: pool, db: pgstore.New(pool, nil), parents: &parents{each: max(1, b.traced)},
			outbox: outbox.Options{MeterProvider: seen.meters},
			relay: relay.Options{Logger: quietly(), MeterProvider: seen.meters,
				TracerProvider: seen.tracers},
			inbox: inbox.Options{MeterProvider: seen.meters, TracerProvider: seen.tracers},
		},
	}, nil
}

// as is a pool whose connections have the rights of a login with these roles, and no more.
func (b *bench) as(ctx context.Context, pool *pgxpool.Pool, roles ...string) (*pgxpool.Pool, error) {
	login := name()
	b.later(func() error {
		return execAll(context.WithoutCancel(ctx), pool, "drop owned by "+login, "drop role "+login)
	})
	for _, role := range roles {
		grants, err := pgstore.Grants(role, &pgstore.GrantOptions{Name: login})
		if err != nil {
			return nil, err
		}
		if _, err := pool.Exec(ctx, grants, pgx.QueryExecModeSimpleProtocol); err != nil {
			return nil, fmt.Errorf("grant %s: %w", role, err)
		}
	}
	cfg := pool.Config()
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		// rights are those of the role; the server need not let it log in
		_, err := conn.Exec(ctx, "set role "+login)
		return err
	}
	under, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect as %s: %w", strings.Join(roles, ", "), err)
	}
	b.later(func() error { under.Close(); return nil })
	return under, nil
}

// out is an outbox of this way.
func (w way) out() *outbox.Outbox[pgx.Tx] { return outbox.New[pgx.Tx](w.db, &w.outbox) }

// wayBars: processor time is the steadier figure; the rate shows 5 % only on a machine that does nothing
// else.
func wayBars(time func(Result) float64, what string) []bar {
	var out []bar
	for _, one := range []string{roled, told} {
		out = append(out,
			bar{what: "CPU of the client and PostgreSQL, " + one + " ÷ without", of: one, to: []string{alone},
				value: cpu, most: 1.05},
			bar{what: what + ", " + one + " ÷ without", of: one, to: []string{alone}, value: time,
				most: 1.05})
	}
	return out
}
