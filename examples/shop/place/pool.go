package place

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// PoolConfig is how services and commands connect to PostgreSQL at a URL. Passwords may also come from PGPASSWORD,
// ~/.pgpass or SKALD_PASSWORD_COMMAND. Statements are named, which saves the server parsing and planning them each time,
// unless there is a pooler in between (PgBouncer before 1.21 loses them in transaction mode) or the URL has
// default_query_exec_mode.
func PoolConfig(at string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(at)
	if err != nil {
		return nil, &UsageError{What: err.Error() + ": the store is postgres://user@host:port/database"} // pgx leaves the password out
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	cfg.BeforeConnect = AskPassword
	if !strings.Contains(at, "default_query_exec_mode=") { // a URL of several hosts is none to net/url
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // of who connects without a pool
		cfg.BeforeConnect = newWay().before
	}
	return cfg, nil
}

// way is how statements go to a server: asked for once, by the first that connects.
type way struct {
	turn  chan struct{} // held by who asks
	known bool
	mode  pgx.QueryExecMode
}

func newWay() *way { return &way{turn: make(chan struct{}, 1)} }

func (w *way) before(ctx context.Context, cfg *pgx.ConnConfig) error {
	if err := AskPassword(ctx, cfg); err != nil {
		return err
	}
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := w.ask(ctx, cfg); err != nil {
		return err
	}
	cfg.DefaultQueryExecMode = w.mode
	return nil
}

// ask compares the process that greeted the client, for cancel requests, with the one that answers: a pooler greets
// with a number of its own.
func (w *way) ask(ctx context.Context, cfg *pgx.ConnConfig) error {
	if w.known {
		return nil
	}
	c, err := pgx.ConnectConfig(ctx, cfg.Copy()) // each host has its own connect_timeout
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.ConnectTimeout)
	defer cancel()
	defer func() { _ = c.Close(ctx) }()
	var pid uint32
	if err := c.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid); err != nil {
		return fmt.Errorf("ask who answers, the server or a pooler: %w", err)
	}
	w.known, w.mode = true, pgx.QueryExecModeCacheDescribe
	if pid == c.PgConn().PID() {
		w.mode = pgx.QueryExecModeCacheStatement
	}
	return nil
}
