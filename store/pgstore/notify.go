package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/backoff"
)

// channel carries the names of schemas that were written to.
const channel = "skald_outbox"

const (
	notifyGap = 20 * time.Millisecond // between two notifications of one process
	// for a connection and the answer; relays find the rows without it, too
	notifyWait = time.Second
)

// A notifier tells other processes of writes in this one, never in the caller's transaction: there a NOTIFY
// makes all commits of a database wait for one another.
type notifier struct {
	send func(ctx context.Context)

	mu      sync.Mutex
	pending bool
	last    time.Time
}

// tell has one notification sent soon, however many writes there are until then.
func (n *notifier) tell() {
	if n.send == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pending {
		return
	}
	n.pending = true
	time.AfterFunc(max(0, notifyGap-time.Since(n.last)), n.fire)
}

func (n *notifier) fire() {
	n.mu.Lock()
	n.pending, n.last = false, time.Now() // before it is sent: a write from here on has one of its own
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), notifyWait)
	defer cancel()
	n.send(ctx)
}

// notify sends one; who misses it polls.
func (c *core) notify(ctx context.Context) {
	_ = c.pg.Short(ctx, "notify", c.pg.Call("Notify", channel, c.pg.Schema))
}

func (c *core) wake() {
	c.waker.wake()
	c.notifier.tell()
}

// A Listener wakes the relays of this process when another one has written, or is about to commit what it
// wrote. It has one connection of its own, which must go to the server itself: a pooler in transaction mode
// has no LISTEN. Writers in Go need Options.Notify; others say SELECT pg_notify('skald_outbox', '<schema>')
// after their COMMIT. What is missed while the connection is lost is found by the relays' own looks.
type Listener struct {
	// BeforeConnect may change what is connected with, such as a password that lasts for minutes only. Its
	// error is waited for. Default nil.
	BeforeConnect func(context.Context, *pgx.ConnConfig) error
	// Logger is told, once, when the connection cannot be had. Default slog.Default().
	Logger *slog.Logger

	all    []*core
	config *pgx.ConnConfig
}

var _ skald.Runner = (*Listener)(nil)

// Listen is a Listener at url for several schemas of that database: it wakes whoever relays from one of
// stores.
func Listen(url string, stores ...*Store) (*Listener, error) {
	all := make([]*core, len(stores))
	for i, s := range stores {
		all[i] = s.core
	}
	return listen(url, all...)
}

// Listen is a Listener at url that wakes whoever relays from s.
func (s *Store) Listen(url string) (*Listener, error) { return listen(url, s.core) }

// Listen is a Listener at url that wakes whoever relays from s.
func (s *SQLStore) Listen(url string) (*Listener, error) { return listen(url, s.core) }

func listen(url string, all ...*core) (*Listener, error) {
	if len(all) == 0 {
		return nil, errors.New("listen: for which stores? Give one or more")
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return &Listener{Logger: slog.Default(), all: all, config: config}, nil
}

// Run listens until ctx is done. A server that is away is tried again, at most 5 s later.
func (l *Listener) Run(ctx context.Context) error {
	for fails := 0; ctx.Err() == nil; {
		heard, err := l.hear(ctx)
		if heard {
			fails = 0
		}
		fails++
		var before *beforeError
		switch {
		case err == nil || ctx.Err() != nil:
		case !Outage(err) && !errors.As(err, &before):
			return fmt.Errorf("listen: %w", l.all[0].pg.Explain(err))
		case fails == 2: // not the first time: a connection may be lost
			l.Logger.Warn("listen: no connection; relays find what is written by looking", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff.After(fails, 50*time.Millisecond, 5*time.Second)):
		}
	}
	return nil
}

// A beforeError is one of BeforeConnect.
type beforeError struct{ error }

func (e *beforeError) Unwrap() error { return e.error }

// hear is one connection's life. It tells whether it came to listen.
func (l *Listener) hear(ctx context.Context) (heard bool, err error) {
	config := l.config.Copy()
	if l.BeforeConnect != nil {
		if err := l.BeforeConnect(ctx, config); err != nil {
			return false, &beforeError{err}
		}
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(end)
	}()
	if _, err := conn.Exec(ctx, l.all[0].pg.SQL["Listen"]); err != nil {
		return false, err
	}
	for _, c := range l.all {
		c.waker.wake() // for what was said before
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true, err
		}
		for _, c := range l.all {
			if n.Payload == c.pg.Schema {
				c.waker.wake()
			}
		}
	}
}
