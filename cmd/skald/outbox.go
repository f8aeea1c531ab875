package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

func outboxCommand(out, errs io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "outbox", Short: "What the outbox holds, a message by hand, and what to do when it moved",
		RunE: func(c *cobra.Command, _ []string) error {
			c.SetOut(c.ErrOrStderr())
			return errors.Join(&place.UsageError{What: "which command of outbox?"}, errTold, c.Usage())
		}}
	c.AddCommand(statusCommand(out), reseatCommand(out, errs), outboxWriteCommand(out))
	return c
}

const statusAbout = `Says how many messages wait to be published, for how long the oldest has, how many the broker refused, and who owns
each lane. It reads the views skald_backlog and skald_lanes (docs/sql.md), which are cheap however long the outbox is:
beyond 10,000 messages a number is an estimate.`

func statusCommand(out io.Writer) *cobra.Command {
	var schema string
	var asJSON bool
	c := &cobra.Command{
		Use: "status", Short: "What waits to be published, and who owns the lanes", Long: statusAbout, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			db, err := openDatabase(from(c, "store", "SKALD_STORE"), schema, "")
			if err != nil {
				return err
			}
			s, err := db.status(c.Context())
			if err != nil {
				return fmt.Errorf("outbox status: %w", err)
			}
			if asJSON {
				return json.NewEncoder(out).Encode(s)
			}
			return s.tell(out)
		},
	}
	f := c.Flags()
	f.String("store", "", "sqlite:FILE or postgres://…; SKALD_STORE stands for it")
	f.StringVar(&schema, "schema", "", "where the tables are; PostgreSQL only (default: public)")
	f.BoolVar(&asJSON, "json", false, "print one object and nothing else")
	return c
}

// A status is what --json prints: its names are stable.
type status struct {
	Pending       int64        `json:"pending"`
	Exact         bool         `json:"exact"` // false: pending is an estimate
	OldestSeconds float64      `json:"oldest_seconds"`
	SetAside      int64        `json:"set_aside"`
	Lanes         []laneStatus `json:"lanes"`
}

type laneStatus struct {
	Lane    int     `json:"lane"`
	Owner   *string `json:"owner"` // null: nobody
	Epoch   int64   `json:"epoch"`
	Pending int64   `json:"pending"`
}

func (s *status) tell(out io.Writer) error {
	about := ""
	if !s.Exact {
		about = "about "
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "pending\t%s%d\n", about, s.Pending)
	fmt.Fprintf(w, "oldest\t%v\n", time.Duration(s.OldestSeconds*float64(time.Second)).Round(time.Millisecond))
	fmt.Fprintf(w, "set aside\t%d\n\n", s.SetAside)
	fmt.Fprintf(w, "lane\towner\tepoch\tpending\n")
	for _, l := range s.Lanes {
		owner := "–"
		if l.Owner != nil {
			owner = *l.Owner
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\n", l.Lane, owner, l.Epoch, l.Pending)
	}
	return w.Flush()
}

// The same on both; prefix is of the tables.
func statusQueries(prefix string) (backlog, lanes string) {
	return "SELECT pending, exact, oldest_seconds, set_aside FROM " + prefix + "skald_backlog",
		"SELECT lane, owner, epoch, pending FROM " + prefix + "skald_lanes ORDER BY lane"
}

func (s *status) backlog() []any { return []any{&s.Pending, &s.Exact, &s.OldestSeconds, &s.SetAside} }
func (l *laneStatus) row() []any { return []any{&l.Lane, &l.Owner, &l.Epoch, &l.Pending} }

func (s server) status(ctx context.Context) (*status, error) {
	conn, err := place.Connect(ctx, s.cfg)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }() // it has only read
	backlog, lanes := statusQueries(pgx.Identifier{s.schema}.Sanitize() + ".")
	out := &status{}
	if err := conn.QueryRow(ctx, backlog).Scan(out.backlog()...); err != nil {
		return nil, s.explain(ctx, conn, err)
	}
	rows, err := conn.Query(ctx, lanes)
	if err != nil {
		return nil, err
	}
	out.Lanes, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (l laneStatus, err error) {
		return l, row.Scan(l.row()...)
	})
	return out, err
}

// explain tells a schema without the view: it has no tables, or those of an older build, or is not there.
func (s server) explain(ctx context.Context, conn *pgx.Conn, err error) error {
	var said *pgconn.PgError
	if !errors.As(err, &said) || said.Code != "42P01" && said.Code != "3F000" {
		return err
	}
	var there bool
	if bad := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1::text)", s.schema).Scan(&there); bad != nil {
		return bad
	}
	remedy := "run: skald migrate --store … --schema " + s.schema
	if !there {
		return fmt.Errorf("%w: there is no schema %s: %s", place.ErrNone, s.schema, remedy)
	}
	todo, bad := s.with(ctx, pgstore.Pending)
	if bad != nil {
		return bad
	}
	return &store.SchemaError{Where: "schema " + s.schema, Remedy: fmt.Sprintf("%s (to apply: %v)", remedy, todo)}
}

func (f file) status(ctx context.Context) (out *status, err error) {
	remedy := "run: skald migrate --store sqlite:" + f.path
	if _, err := os.Stat(f.path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no file %s: %s", place.ErrNone, f.path, remedy)
	}
	db, err := sqlitestore.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	todo, err := sqlitestore.Pending(ctx, db)
	if err != nil {
		return nil, err
	}
	if len(todo) > 0 {
		return nil, &store.SchemaError{Where: f.path, Remedy: remedy}
	}
	backlog, lanes := statusQueries("")
	out = &status{}
	if err := db.QueryRowContext(ctx, backlog).Scan(out.backlog()...); err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, lanes)
	if err != nil {
		return nil, err
	}
	defer func(r *sql.Rows) { err = errors.Join(err, r.Close()) }(rows)
	for rows.Next() {
		var l laneStatus
		if err := rows.Scan(l.row()...); err != nil {
			return nil, err
		}
		out.Lanes = append(out.Lanes, l)
	}
	return out, rows.Err()
}
