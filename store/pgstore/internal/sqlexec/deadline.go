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

// DefaultPatience is the maximum time of one round trip, including DefaultWait for a rival's lock.
const DefaultPatience = Patience(15 * time.Second)

const (
	// longTimes is the factor of the patience for a list, a count or a round of retention.
	longTimes = 60
	// tries is the number of connections of the pool that may not answer, each for its part of the
	// patience, before a caller gives up.
	tries = 3
	// firstTry limits the first of the tries, which may ping a dead connection.
	firstTry = time.Second
	// suspicious is the time, above the wait for rivals, after which a caller that gives up indicates a
	// dead connection.
	suspicious = time.Second / 2
	// lastWords is the maximum time for a server to cancel the statement of a connection that is closed.
	lastWords = time.Second
)

// Patience limits each round trip of Skald's own. Without it a dead connection that does not end would
// block its caller forever. pgx closes a connection whose deadline passes.
type Patience time.Duration

type allowedKey struct{}

// longer returns ctx for round trips that may take d longer.
func longer(ctx context.Context, d time.Duration) context.Context {
	if d <= 0 {
		return ctx
	}
	return context.WithValue(ctx, allowedKey{}, allowed(ctx)+d)
}

// waiting returns ctx for round trips whose statements may wait that long for rivals.
func waiting(ctx context.Context, wait time.Duration) context.Context {
	return longer(ctx, wait-DefaultWait)
}

func allowed(ctx context.Context) time.Duration {
	d, _ := ctx.Value(allowedKey{}).(time.Duration)
	return d
}

// Long returns ctx for statements that read or change many rows.
func (p Patience) Long(ctx context.Context) context.Context {
	return longer(ctx, longTimes*time.Duration(p))
}

// bound returns ctx with the deadline of one round trip.
func (p Patience) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, time.Duration(p)+allowed(ctx), errSilent)
}

var (
	errSilent = errors.New("the database gave no answer in time; the connection is closed")
	// errUnanswered reports that the caller's context ended long after the answer was due.
	errUnanswered = errors.New("the database had not answered when the caller gave up; the connection is closed")
)

// missed adds errSilent to err if the deadline of ctx, which bound returned, has passed.
func missed(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errSilent) && !errors.Is(err, errSilent) {
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	return err
}

// RoundTrip runs f on conn within the patience plus wait, the time that its statements may wait for rivals.
// After a failure the connection has no transaction, or is closed.
func (p Patience) RoundTrip(ctx context.Context, pool *pgxpool.Pool, conn *pgx.Conn, wait time.Duration,
	f func(ctx context.Context) error) error {
	began := time.Now()
	err := p.Within(ctx, wait, f)
	if err != nil {
		if ctx.Err() != nil && allowed(ctx) <= 0 && time.Since(began) > wait+suspicious {
			err = fmt.Errorf("%w: %w", errUnanswered, err)
		}
		p.leave(ctx, pool, conn, err)
	}
	return err
}

// leave rolls back after err. It closes a connection to a server that cannot write, or one that missed its
// deadline or its caller's. In these cases it also replaces the other connections of the pool. They
// probably lead to the same server.
func (p Patience) leave(ctx context.Context, pool *pgxpool.Pool, conn *pgx.Conn, err error) {
	switch {
	case errors.Is(err, errSilent), errors.Is(err, errUnanswered):
		// pgx closed it, would wait 15 s for its end, and the pool would count it until then
		_ = conn.PgConn().Conn().Close()
		renew(context.WithoutCancel(ctx), pool)
	case cannotWrite(err) && (SQLState(err) != "25006" || inRecovery(conn)):
		Close(ctx, conn)
		renew(ctx, pool)
	default:
		_ = Undo(ctx, conn)
	}
}

// cannotWrite reports that the server is a standby, or starts or stops. Its connection may stay there until
// it ends, while a new one may reach the primary.
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

// inRecovery reports whether conn leads to a standby. On a primary, a handler that made its transaction
// READ ONLY gets the same error.
func inRecovery(conn *pgx.Conn) bool {
	return conn.PgConn().ParameterStatus("in_hot_standby") == "on"
}

// Leave closes the connection of a caller's transaction if it failed with err because the server is a
// standby.
func (p Patience) Leave(ctx context.Context, pool *pgxpool.Pool, conn *pgx.Conn, err error) {
	if conn != nil && cannotWrite(err) && inRecovery(conn) {
		Close(ctx, conn)
		renew(ctx, pool)
	}
}

// renew makes the pool replace its connections. It closes idle ones now; the pool closes others when they
// return. Reset alone would wait up to 15 s for the end of a dead one, and count it until then.
func renew(ctx context.Context, pool *pgxpool.Pool) {
	for _, c := range pool.AcquireAllIdle(ctx) {
		go Close(ctx, c.Hijack())
	}
	pool.Reset()
}

// Release returns conn to its pool. pgx waits up to 15 s for the end of a connection whose statement was
// aborted, and the pool counts it until then. Release waits at most 1 s, then closes the socket.
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

// Close closes conn and waits at most 1 s.
func Close(ctx context.Context, conn *pgx.Conn) {
	shut, end := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer end()
	_ = conn.Close(shut)
}

// Acquire takes a connection of the pool. The pool pings one that was idle; on a dead link that would block
// until ctx ends. So each try is limited. While all connections are in use, Acquire waits as long as ctx
// permits.
func (p Patience) Acquire(ctx context.Context, pool *pgxpool.Pool) (conn *pgxpool.Conn, err error) {
	err = p.try(ctx, func(ctx context.Context) (err error) {
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

func (p Patience) try(ctx context.Context, take func(context.Context) error, full func() bool) error {
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
			full() // the caller gave up first: the next one gets a new connection
		}
		if late && (full() || n < tries) { // the first try does not count
			continue
		}
		if err != nil {
			return fmt.Errorf("acquire connection: %w", err)
		}
		return nil
	}
}

// Within runs f within the patience plus wait, the time that its statements may wait for rivals.
func (p Patience) Within(ctx context.Context, wait time.Duration, f func(context.Context) error) error {
	within, stop := p.bound(waiting(ctx, wait))
	defer stop()
	return missed(within, f(within))
}

// OnConn runs f on a connection of db, within the patience.
func (p Patience) OnConn(ctx context.Context, db *sql.DB,
	f func(ctx context.Context, conn *sql.Conn) error) error {
	conn, err := p.Conn(ctx, db)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	within, stop := p.bound(ctx)
	defer stop()
	err = missed(within, f(within, conn))
	Dropped(conn, err)
	return err
}

// Conn does for database/sql as Acquire does for a pool.
func (p Patience) Conn(ctx context.Context, db *sql.DB) (conn *sql.Conn, err error) {
	err = p.try(ctx, func(ctx context.Context) (err error) {
		conn, err = db.Conn(ctx)
		return err
	}, func() bool {
		s := db.Stats()
		return s.MaxOpenConnections > 0 && s.InUse >= s.MaxOpenConnections
	})
	return conn, err
}

// Dropped closes conn if err means that it must not be used again. Otherwise it does nothing.
func Dropped(conn *sql.Conn, err error) {
	if cannotWrite(err) || errors.Is(err, errSilent) {
		Discard(context.Background(), conn)
	}
}
