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
	defaultPingEvery = 15 * time.Second // the maximum time without a notification before a ping
	defaultCallMost  = 10 * time.Second // the maximum time for an answer of the server
)

// Listener wakes the relays of this process when another process has written, or is about to commit.
//
// A Listener has one connection of its own. This connection must reach the server directly, because a pooler
// in transaction mode does not support LISTEN. Writers in Go need Options.Notify. Other writers run SELECT
// pg_notify('skald_outbox', '<schema>') after their COMMIT. While the connection is lost, relays find new
// rows by polling.
type Listener struct {
	// BeforeConnect may change the settings of a connection, such as a short-lived password. If it returns an
	// error, the Listener retries later. Default nil.
	BeforeConnect func(context.Context, *pgx.ConnConfig) error
	// Logger receives one warning if the Listener cannot connect. Default slog.Default().
	Logger *slog.Logger

	all    []*Waker
	config *pgx.ConnConfig

	pingEvery, callMost time.Duration
}

var _ skald.Runner = (*Listener)(nil)

// Listen returns a Listener at url. After a write to the schema of a waker, the Listener wakes this waker.
func Listen(url string, wakers ...*Waker) (*Listener, error) {
	if len(wakers) == 0 {
		return nil, errors.New("listen: give at least one store")
	}
	if err := endpoint.CheckPostgres(url); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return &Listener{Logger: slog.Default(), all: wakers, config: config,
		pingEvery: defaultPingEvery, callMost: defaultCallMost}, nil
}

// Run listens until ctx is done. If the server is unreachable, Run retries after at most 5 s. It returns an
// error that a retry cannot fix, such as a wrong password.
func (l *Listener) Run(ctx context.Context) error {
	for fails := 0; ctx.Err() == nil; {
		heard, err := l.listen(ctx)
		if heard {
			fails = 0
		}
		fails++
		var before *beforeError
		switch {
		case err == nil || ctx.Err() != nil:
		case !Outage(err) && !errors.As(err, &before):
			return fmt.Errorf("listen: %w", l.all[0].pg.Explain(err))
		case fails == 2: // the first failure may be one lost connection
			l.Logger.Warn("listen: not connected; until it is, relays poll for new rows", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff.After(fails, 50*time.Millisecond, 5*time.Second)):
		}
	}
	return nil
}

// beforeError is an error of BeforeConnect.
type beforeError struct{ error }

func (e *beforeError) Unwrap() error { return e.error }

// listen connects and listens until the connection fails. It returns true if it began to listen.
func (l *Listener) listen(ctx context.Context) (began bool, err error) {
	conn, err := l.connect(ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(end)
	}()
	err = l.runLimited(ctx, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, l.all[0].pg.SQL["Listen"])
		return err
	})
	if err != nil {
		return false, err
	}
	for _, w := range l.all {
		w.Here() // for writes before this connection listened
	}
	for {
		n, err := l.waitNext(ctx, conn)
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

// connect opens a connection, within callMost.
func (l *Listener) connect(ctx context.Context) (conn *pgx.Conn, err error) {
	config := l.config.Copy()
	err = l.runLimited(ctx, func(ctx context.Context) error {
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

// waitNext waits for a notification. If no notification arrives within pingEvery, waitNext pings the server,
// because a client does not notice a dead connection otherwise.
func (l *Listener) waitNext(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	for {
		quiet, stop := context.WithTimeout(ctx, l.pingEvery)
		n, err := conn.WaitForNotification(quiet)
		late := quiet.Err() != nil && ctx.Err() == nil
		stop()
		if err == nil || !late || conn.IsClosed() {
			return n, err
		}
		if err := l.runLimited(ctx, conn.Ping); err != nil {
			return nil, fmt.Errorf("the server does not answer a ping: %w", err)
		}
	}
}

// runLimited runs f with the time limit callMost.
func (l *Listener) runLimited(ctx context.Context, f func(context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, l.callMost)
	defer stop()
	return f(ctx)
}
