package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// actor runs steps, each when it is its turn. An actor that waits for a lock is skipped.
type actor struct {
	name string // application_name of its connections
	at   chan struct{}
	pass chan struct{}
	over chan error

	ready, done bool
	rival       string // application_name of the actor that must not block this one
	blocked     int    // number of times the rival was found to block it
	err         error
}

// act starts f and stops it before its first step.
func act(name string, f func(a *actor) error) *actor {
	a := &actor{name: name, at: make(chan struct{}), pass: make(chan struct{}), over: make(chan error, 1)}
	go func() { a.over <- f(a) }()
	return a
}

// gate waits before each step.
func (a *actor) gate() {
	a.at <- struct{}{}
	<-a.pass
}

// settle waits until the actor is before a step or done. Returns false if it waits for a lock.
func (a *actor) settle(ctx context.Context, look *pgxpool.Pool) (bool, error) {
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(5 * time.Minute)
	for !a.ready && !a.done {
		select {
		case <-a.at:
			a.ready = true
		case a.err = <-a.over:
			a.done = true
		case <-deadline:
			return false, fmt.Errorf("%s hangs", a.name)
		case <-tick.C:
			var waits, behind bool
			err := look.QueryRow(ctx, `SELECT count(*) > 0,
					coalesce(bool_or(EXISTS (SELECT FROM pg_stat_activity AS r
						WHERE r.application_name = $2 AND r.pid = ANY (pg_blocking_pids(w.pid)))), false)
				FROM pg_stat_activity AS w
				WHERE w.application_name = $1 AND w.wait_event_type = 'Lock'`, a.name, a.rival).Scan(&waits, &behind)
			if behind {
				a.blocked++
			}
			if err != nil || waits {
				return false, err
			}
		}
	}
	return true, nil
}

// step lets the actor do one step and returns true, unless it waits for a lock.
func (a *actor) step(ctx context.Context, look *pgxpool.Pool) (bool, error) {
	if ok, err := a.settle(ctx, look); !ok || a.done {
		return false, err
	}
	a.ready = false
	a.pass <- struct{}{}
	_, err := a.settle(ctx, look)
	return true, err
}

// play runs two actors in the order of merge, and then to their ends. between, unless nil, runs after each
// step.
func play(ctx context.Context, look *pgxpool.Pool, merge []bool, a, b *actor, between func() error) error {
	for _, second := range merge {
		one := a
		if second {
			one = b
		}
		if _, err := one.step(ctx, look); err != nil {
			return err
		}
		if between != nil {
			if err := between(); err != nil {
				return err
			}
		}
	}
	deadline := time.Now().Add(5 * time.Minute)
	for !a.done || !b.done {
		for _, one := range []*actor{a, b} {
			if _, err := one.step(ctx, look); err != nil {
				return err
			}
		}
		if time.Now().After(deadline) {
			return errors.New("the two wait for each other")
		}
	}
	return errors.Join(a.err, b.err)
}

// written returns a merge as text, for example "aabb".
func written(merge []bool) string {
	var s strings.Builder
	for _, second := range merge {
		s.WriteByte("ab"[map[bool]int{true: 1}[second]])
	}
	return s.String()
}

// stepper runs the calls of a store one by one. Calls that contain one of texts, and COMMIT, are steps.
type stepper struct {
	pool  *pgxpool.Pool
	actor *actor
	texts []string
}

func (r *stepper) Run(ctx context.Context, calls ...sqlexec.Call) error {
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	steps := 0
	all := append([]sqlexec.Call{{SQL: sqlexec.Begin}}, calls...)
	for _, c := range all {
		if r.is(c.SQL) {
			steps++
			r.actor.gate()
		}
		if err := sqlexec.Send(ctx, conn.Conn(), []sqlexec.Call{c}); err != nil {
			_ = sqlexec.Undo(ctx, conn.Conn())
			return err
		}
	}
	if steps > 0 {
		r.actor.gate()
	}
	if err := sqlexec.SendCommit(ctx, conn.Conn(), nil); err != nil {
		_ = sqlexec.Undo(ctx, conn.Conn())
		return err
	}
	return nil
}

func (r *stepper) is(sql string) bool {
	for _, text := range r.texts {
		if strings.Contains(sql, text) {
			return true
		}
	}
	return false
}

// actorPool returns a pool for one actor.
func (b *bed) actorPool(t testing.TB, name string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(b.url)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["application_name"] = name
	config.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1`, name)
		go pool.Close()
	})
	return pool
}

// stepStore returns a store whose statements with one of texts are steps of the actor in the runner.
func (b *bed) stepStore(t testing.TB, name string, texts ...string) (*Store, *stepper) {
	t.Helper()
	pool := b.actorPool(t, name)
	s, r := New(pool, &Options{Schema: b.schema}), &stepper{pool: pool, texts: texts}
	s.pg.Runner = r
	return s, r
}

func (r *stepper) Within(ctx context.Context, session sqlexec.Call,
	f func(send sqlexec.Sender) error) error {
	return sqlexec.OverPool(r.pool, sqlexec.DefaultPatience).Within(ctx, session, f)
}
