package connect

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/internal/endpoint"
)

// connectTimeout limits the wait for a server, unless the URL has connect_timeout.
const connectTimeout = 10 * time.Second

// PoolConfig returns the settings for PostgreSQL at a URL. The password may also come from PGPASSWORD,
// ~/.pgpass or SKALD_PASSWORD_COMMAND.
//
// pgx prepares statements by name, so that the server parses and plans them once. Through a pooler pgx does
// not do that, because PgBouncer before 1.21 loses prepared statements in transaction mode. If the URL has
// default_query_exec_mode, PoolConfig does not change this mode.
func PoolConfig(url string) (*pgxpool.Config, error) {
	const form = ": the store is postgres://user@host:port/database"
	if err := endpoint.CheckPostgres(url); err != nil {
		return nil, &cli.UsageError{What: err.Error() + form}
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The error of pgx does not contain the password.
		return nil, &cli.UsageError{What: err.Error() + form}
	}
	if err := endpoint.CheckHost(cfg.ConnConfig.Host); err != nil {
		return nil, &cli.UsageError{What: err.Error() + form}
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	cfg.BeforeConnect = AskPassword
	if !strings.Contains(url, "default_query_exec_mode=") { // net/url cannot parse a URL of several hosts
		// This mode is for connections without the pool: see Postgres.
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		cfg.BeforeConnect = newMode().before
	}
	return cfg, nil
}

// Shown returns the URL of a store without its password.
func Shown(store string) string {
	if strings.HasPrefix(store, "sqlite:") {
		return store
	}
	u, err := url.Parse(store)
	if err != nil || endpoint.CheckPostgres(store) != nil {
		return "postgres://…"
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	q := u.Query()
	for name := range q {
		if strings.Contains(name, "password") {
			q.Del(name)
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// Postgres opens one connection with the settings of cfg's pool.
func Postgres(ctx context.Context, cfg *pgxpool.Config) (*pgx.Conn, error) {
	c := cfg.ConnConfig.Copy()
	if err := AskPassword(ctx, c); err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, c)
}

// mode sets DefaultQueryExecMode of each connection. It detects on the first connection whether there is a
// pooler.
type mode struct {
	turn  chan struct{} // holds a token while one connection determines the mode
	known bool
	exec  pgx.QueryExecMode
}

func newMode() *mode { return &mode{turn: make(chan struct{}, 1)} }

func (m *mode) before(ctx context.Context, cfg *pgx.ConnConfig) error {
	if err := AskPassword(ctx, cfg); err != nil {
		return err
	}
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := m.ask(ctx, cfg); err != nil {
		return err
	}
	cfg.DefaultQueryExecMode = m.exec
	return nil
}

// ask detects a pooler. It compares the process ID that the server sent at the start, for cancel requests,
// with the ID of the process that answers a query. A pooler sends an ID of its own at the start.
func (m *mode) ask(ctx context.Context, cfg *pgx.ConnConfig) error {
	if m.known {
		return nil
	}
	c, err := pgx.ConnectConfig(ctx, cfg.Copy()) // connect_timeout applies to each host
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.ConnectTimeout)
	defer cancel()
	defer func() { _ = c.Close(ctx) }()
	var pid uint32
	if err := c.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid); err != nil {
		return fmt.Errorf("detect a pooler: %w", err)
	}
	m.known, m.exec = true, pgx.QueryExecModeCacheDescribe
	if pid == c.PgConn().PID() {
		m.exec = pgx.QueryExecModeCacheStatement
	}
	return nil
}
