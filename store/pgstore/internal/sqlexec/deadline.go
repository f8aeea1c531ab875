package sqlexec

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// This file limits the time of each round trip, so that a dead connection cannot block a caller forever.

// DefaultPatience is the default maximum time of one round trip, including DefaultWait for a lock.
const DefaultPatience = Patience(15 * time.Second)

const (
	// longTimes is the additional time of a list, a count or a round of retention, as a multiple of the
	// patience.
	longTimes = 60
	// tries is the number of attempts to get a connection from a pool. Each attempt gets its part of the
	// patience.
	tries = 3
	// firstTry limits an additional first attempt, because the pool may ping a dead connection.
	firstTry = time.Second
	// suspicious is a time that a working server rarely needs, in addition to the wait for locks. If a caller
	// cancels a longer round trip, Patience assumes that the connection is dead.
	suspicious = time.Second / 2
	// lastWords is the maximum time for a server to cancel the statement of a closed connection.
	lastWords = time.Second
)

// Patience limits each round trip of Skald's own statements. If a round trip exceeds the limit, pgx closes
// the connection, and the error is an outage.
type Patience time.Duration

// allowedKey is the context key of the additional time for a round trip.
type allowedKey struct{}

// withExtraTime returns a context for round trips that may take d longer than the patience.
func withExtraTime(ctx context.Context, d time.Duration) context.Context {
	if d <= 0 {
		return ctx
	}
	return context.WithValue(ctx, allowedKey{}, allowed(ctx)+d)
}

// withLockWait returns a context for round trips with statements that may wait for locks, at most for the
// time lockWait.
func withLockWait(ctx context.Context, lockWait time.Duration) context.Context {
	return withExtraTime(ctx, lockWait-DefaultWait)
}

func allowed(ctx context.Context) time.Duration {
	d, _ := ctx.Value(allowedKey{}).(time.Duration)
	return d
}

// Long returns a context for statements that read or change many rows. It allows 60 times as much time.
func (p Patience) Long(ctx context.Context) context.Context {
	return withExtraTime(ctx, longTimes*time.Duration(p))
}

// bound returns ctx with the deadline of one round trip.
func (p Patience) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, time.Duration(p)+allowed(ctx), errSilent)
}

var (
	errSilent = errors.New("the database gave no answer in time; the connection is closed")
	// errUnanswered reports that the caller's context ended after a working server would have answered.
	errUnanswered = errors.New("the database had not answered when the caller gave up; the connection is closed")
)

// explainTimeout adds errSilent to err if the deadline of ctx has passed. The context ctx must come from
// bound.
func explainTimeout(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errSilent) && !errors.Is(err, errSilent) {
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	return err
}

// RoundTrip runs f on conn. The limit of f is the patience plus lockWait, the time that the statements of f
// may wait for locks. If f fails, conn has no transaction afterwards, or is closed.
func (p Patience) RoundTrip(ctx context.Context, pool *pgxpool.Pool, conn *pgx.Conn, lockWait time.Duration,
	f func(ctx context.Context) error) error {
	began := time.Now()
	err := p.Within(ctx, lockWait, f)
	if err != nil {
		if ctx.Err() != nil && allowed(ctx) <= 0 && time.Since(began) > lockWait+suspicious {
			err = fmt.Errorf("%w: %w", errUnanswered, err)
		}
		p.leave(ctx, pool, conn, err)
	}
	return err
}

// leave rolls back after err. It closes conn instead if the server cannot write or did not answer in time.
// Then it also replaces the other connections of the pool, because they probably lead to the same server.
func (p Patience) leave(ctx context.Context, pool *pgxpool.Pool, conn *pgx.Conn, err error) {
	switch {
	case errors.Is(err, errSilent), errors.Is(err, errUnanswered):
		// pgx began to close conn and waits up to 15 s for its end. The pool counts conn until then.
		_ = conn.PgConn().Conn().Close()
		renew(context.WithoutCancel(ctx), pool)
	case cannotWrite(err) && (SQLState(err) != "25006" || inRecovery(conn)):
		Close(ctx, conn)
		renew(ctx, pool)
	default:
		_ = Undo(ctx, conn)
	}
}

// cannotWrite reports whether the server is a standby, or starts or stops. A new connection may reach the
// primary.
func cannotWrite(err error) bool {
	if standby(err) {
		return true
	}
	switch SQLState(err) {
	case "25006", "57P01", "57P02", "57P03":
		return true
	}
	return false
}

// inRecovery reports whether the server of conn is a standby. Code 25006 alone does not show that: a handler
// that made its transaction READ ONLY gets the same code on a primary.
func inRecovery(conn *pgx.Conn) bool {
	return conn.PgConn().ParameterStatus("in_hot_standby") == "on"
}

// Leave handles err of a statement in a transaction of the caller. If the server is a standby, Leave closes
// the connection and replaces the other connections of the pool.
func (p Patience) Leave(ctx context.Context, pool *pgxpool.Pool, conn *pgx.Conn, err error) {
	if conn != nil && cannotWrite(err) && inRecovery(conn) {
		Close(ctx, conn)
		renew(ctx, pool)
	}
}

// renew makes the pool replace its connections. It closes idle connections now; the pool closes the others
// when their users return them. Reset alone would wait up to 15 s for the end of a dead idle connection, and
// the pool would count that connection until then.
func renew(ctx context.Context, pool *pgxpool.Pool) {
	for _, c := range pool.AcquireAllIdle(ctx) {
		go Close(ctx, c.Hijack())
	}
	pool.Reset()
}

// Release returns conn to its pool. If a statement was cancelled, pgx closes conn and waits up to 15 s for
// its end, and the pool counts conn until then. Release waits at most 1 s, then closes the socket.
func Release(conn *pgxpool.Conn) {
	if !conn.Conn().IsClosed() {
		conn.Release()
		return
	}
	go func() {
		late := time.NewTimer(lastWords)
		defer late.Stop()
		select {
		case <-conn.Conn().PgConn().CleanupDone():
		case <-late.C:
		}
		_ = conn.Hijack().PgConn().Conn().Close()
	}()
}

// Close closes conn and waits at most 1 s for the server.
func Close(ctx context.Context, conn *pgx.Conn) {
	shut, end := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer end()
	_ = conn.Close(shut)
}

// Acquire takes a connection from the pool. The pool pings a connection that was idle, and if that connection
// is dead, the ping blocks until ctx ends. So Acquire limits each attempt. While all connections are in use,
// Acquire waits until ctx ends.
func (p Patience) Acquire(ctx context.Context, pool *pgxpool.Pool) (conn *pgxpool.Conn, err error) {
	err = p.acquire(ctx, func(ctx context.Context) (err error) {
		conn, err = pool.Acquire(ctx)
		return err
	}, func() (full bool) {
		s := pool.Stat()
		if full = s.AcquiredConns() >= s.MaxConns(); !full {
			renew(context.WithoutCancel(ctx), pool)
		}
		return full
	})
	return conn, err
}

// acquire calls take with a limit until take succeeds or the number of tries is used up. A try does not
// count if poolFull returns true, because then all connections are in use.
func (p Patience) acquire(ctx context.Context, take func(context.Context) error, poolFull func() bool) error {
	for n := 0; ; n++ {
		most := time.Duration(p) / tries
		if n == 0 {
			most = min(most, firstTry)
		}
		began := time.Now()
		within, stop := context.WithTimeoutCause(ctx, most, errSilent)
		err := take(within)
		late := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
		stop()
		if err != nil && ctx.Err() != nil && time.Since(began) > suspicious {
			poolFull() // renews the pool, so that the next caller gets a new connection
		}
		if late && (poolFull() || n < tries) {
			continue
		}
		if err != nil {
			return fmt.Errorf("acquire connection: %w", err)
		}
		return nil
	}
}

// Within runs f. The limit of f is the patience plus lockWait, the time that the statements of f may wait
// for locks.
func (p Patience) Within(ctx context.Context, lockWait time.Duration, f func(context.Context) error) error {
	within, stop := p.bound(withLockWait(ctx, lockWait))
	defer stop()
	return explainTimeout(within, f(within))
}

// OnConn runs f on a connection of db. Its limit is the patience.
func (p Patience) OnConn(ctx context.Context, db *sql.DB,
	f func(ctx context.Context, conn *sql.Conn) error) error {
	conn, err := p.Conn(ctx, db)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	within, stop := p.bound(ctx)
	defer stop()
	err = explainTimeout(within, f(within, conn))
	Dropped(conn, err)
	return err
}

// Conn takes a connection from db, as Acquire does from a pool.
func (p Patience) Conn(ctx context.Context, db *sql.DB) (conn *sql.Conn, err error) {
	err = p.acquire(ctx, func(ctx context.Context) (err error) {
		conn, err = db.Conn(ctx)
		return err
	}, func() bool {
		s := db.Stats()
		return s.MaxOpenConnections > 0 && s.InUse >= s.MaxOpenConnections
	})
	return conn, err
}

// Dropped closes conn if err means that the server cannot write or did not answer in time.
func Dropped(conn *sql.Conn, err error) {
	if cannotWrite(err) || errors.Is(err, errSilent) {
		Discard(context.Background(), conn)
	}
}
