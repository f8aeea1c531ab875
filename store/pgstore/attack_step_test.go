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

// An actor works by steps, each when it is its turn. A step that waits for a lock is left waiting: the others
// go on.
type actor struct {
	name string // application_name of its connections
	at   chan struct{}
	pass chan struct{}
	over chan error

	ready, done bool
	waits       int // how often it was found waiting for a lock
	err         error
}

// act starts f and leaves it before its first step.
func act(name string, f func(a *actor) error) *actor {
	a := &actor{name: name, at: make(chan struct{}), pass: make(chan struct{}), over: make(chan error, 1)}
	go func() { a.over <- f(a) }()
	return a
}

// gate stands before each step.
func (a *actor) gate() {
	a.at <- struct{}{}
	<-a.pass
}

// settle waits until the actor stands before a step, or is done, or waits for a lock: then it is false.
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
			var blocked bool
			err := look.QueryRow(ctx,
				`SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock')`, a.name).Scan(&blocked)
			if blocked {
				a.waits++
			}
			if err != nil || blocked {
				return false, err
			}
		}
	}
	return true, nil
}

// step lets the actor do one step, unless it waits for a lock. It tells whether it did.
func (a *actor) step(ctx context.Context, look *pgxpool.Pool) (bool, error) {
	if ok, err := a.settle(ctx, look); !ok || a.done {
		return false, err
	}
	a.ready = false
	a.pass <- struct{}{}
	_, err := a.settle(ctx, look)
	return true, err
}

// play lets two actors take their steps in the order of merge, and then to their ends. between, unless nil,
// comes after each step.
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

// written shows a merge, "aabb".
func written(merge []bool) string {
	var s strings.Builder
	for _, second := range merge {
		s.WriteByte("ab"[map[bool]int{true: 1}[second]])
	}
	return s.String()
}

// A stepper runs the calls of a store one by one: those that contain one of texts are steps, and so is
// COMMIT.
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

// pool is connections of an actor's own.
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

// stepStore is a store of which statements with one of texts are steps of whatever actor is set in the
// runner.
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
