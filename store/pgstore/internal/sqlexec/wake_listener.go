package sqlexec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/endpoint"
)

const (
	defaultPingEvery = 15 * time.Second // without a notification
	defaultCallMost  = 10 * time.Second // for which the server may take to answer
)

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

	all    []*Waker
	config *pgx.ConnConfig

	pingEvery, callMost time.Duration
}

var _ skald.Runner = (*Listener)(nil)

// Listen is a Listener at url that tells all of writes to their schemas.
func Listen(url string, all ...*Waker) (*Listener, error) {
	if len(all) == 0 {
		return nil, errors.New("listen: for which stores? Give one or more")
	}
	if err := endpoint.CheckPostgres(url); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return &Listener{Logger: slog.Default(), all: all, config: config,
		pingEvery: defaultPingEvery, callMost: defaultCallMost}, nil
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
	conn, err := l.connect(ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(end)
	}()
	err = l.within(ctx, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, l.all[0].pg.SQL["Listen"])
		return err
	})
	if err != nil {
		return false, err
	}
	for _, w := range l.all {
		w.Here() // for what was said before
	}
	for {
		n, err := l.next(ctx, conn)
		if err != nil {
			return true, err
		}
		for _, w := range l.all {
			if n.Payload == w.pg.Schema {
				w.Here()
			}
		}
	}
}

// connect is bounded as a call is; so is BeforeConnect.
func (l *Listener) connect(ctx context.Context) (conn *pgx.Conn, err error) {
	config := l.config.Copy()
	err = l.within(ctx, func(ctx context.Context) error {
		if l.BeforeConnect != nil {
			if err := l.BeforeConnect(ctx, config); err != nil {
				return &beforeError{err}
			}
		}
		conn, err = pgx.ConnectConfig(ctx, config)
		return err
	})
	return conn, err
}

// next waits for a notification. A connection that carries nothing any more does not end by itself, so next
// asks the server after each time without a notification.
func (l *Listener) next(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	for {
		quiet, stop := context.WithTimeout(ctx, l.pingEvery)
		n, err := conn.WaitForNotification(quiet)
		late := quiet.Err() != nil && ctx.Err() == nil
		stop()
		if err == nil || !late || conn.IsClosed() {
			return n, err
		}
		if err := l.within(ctx, conn.Ping); err != nil {
			return nil, fmt.Errorf("the server gives no sign: %w", err)
		}
	}
}

// within bounds a call of the server.
func (l *Listener) within(ctx context.Context, call func(context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, l.callMost)
	defer stop()
	return call(ctx)
}
