package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/store/pgstore"
)

// asked counts what a page asks of PostgreSQL: statements, without the bounds of their transactions, and the
// transactions, each of which is a round trip.
type asked struct{ statements, trips atomic.Int64 }

func (a *asked) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	a.trips.Add(1)
	a.count(d.SQL)
	return ctx
}

func (*asked) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (a *asked) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	a.trips.Add(1)
	return ctx
}

func (a *asked) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	a.count(d.SQL)
}
func (*asked) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (a *asked) count(sql string) {
	text := strings.ToLower(sql)
	if !strings.HasPrefix(text, "begin") && !strings.HasPrefix(text, "commit") &&
		!strings.HasPrefix(text, "rollback") && !strings.HasPrefix(text, "select set_config") {
		a.statements.Add(1)
	}
}

// A look is a page that is measured, with its arguments.
type look struct{ name, url string }

func looks(dead string) []look {
	return []look{
		{"overview", "/"},
		{"sagas", "/sagas"}, {"sagas, stuck", "/sagas?stuck=1"}, {"sagas, retrying", "/sagas?failing=1"},
		{"sagas, by step", "/sagas?step=nowhere"},
		{"sagas, by error", "/sagas?error=nothing"},
		{"sagas, running, older", "/sagas?status=running&older=1h"},
		{"one saga", "/saga?in=bench&name=shipment&key=order-77"},
		{"flows", "/flows"}, {"flows, overdue", "/flows?overdue=1"},
		{"dead", "/dead"}, {"dead, by fingerprint", "/dead?consumer=payment&fingerprint=00000000002a"},
		{"dead, by type", "/dead?type=nothing"},
		{"dead, grouped", "/dead/groups"}, {"parked", "/parked"},
		{"parked, of a key", "/parked?consumer=payment&key=order-77"},
		{"one message", "/message?in=bench&consumer=payment&source=%2Fbench&id=" + dead},
		{"drop of a group, dry", "/act?in=bench&consumer=payment&fingerprint=00000000002a&verb=drop"},
		{"quarantine", "/quarantine"}, {"consumer", "/consumer?in=bench&consumer=payment"},
		{"calls", "/calls"},
		{"outbox", "/outbox"}, {"definitions", "/definitions"}, {"audit", "/audit"}, {"actions", "/runs"},
		{"search, by key", "/story?q=order-77"}, {"search, by id", "/story?q=" + dead},
		{"doctor", "/doctor?in=bench"},
	}
}

// consolePages measures the pages of a console over a database with -page-rows rows.
func consolePages() comparison {
	return comparison{
		name:  "console",
		title: "pages of the console over one database with -page-rows rows in its tables, one after the other, each without what an earlier one has read",
		script: func(ctx context.Context, b *bench, each func(Result)) (err error) {
			var pool *pgxpool.Pool
			if b.pageDB == "" {
				pool, err = b.database(ctx)
			} else {
				pool, err = b.connect(ctx, b.pageDB, 4)
			}
			if err != nil {
				return err
			}
			filled := false
			if err := pool.QueryRow(ctx,
				"select to_regclass('skald_parked') is not null").Scan(&filled); err != nil {
				return fmt.Errorf("look for tables: %w", err)
			}
			if !filled {
				if err := fillPages(ctx, pool, b.pageRows); err != nil {
					return err
				}
			}
			return b.look(ctx, pool, each)
		},
	}
}

func (b *bench) look(ctx context.Context, pool *pgxpool.Pool, each func(Result)) error {
	count := &asked{}
	cfg := pool.Config().Copy()
	cfg.MaxConns, cfg.ConnConfig.Tracer = 4, count
	traced, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer traced.Close()
	var dead string
	if err := pool.QueryRow(ctx,
		"select id from skald_parked where place = (select max(place) / 2 from skald_parked)").Scan(
		&dead); err != nil {
		return fmt.Errorf("choose a message: %w", err)
	}
	source := map[string]console.Source{"bench": console.NewSource(pgstore.New(traced, nil))}
	const turns = 7
	fmt.Fprintln(b.out, "\n| page | statements | round trips | ms (min–max) | KB |\n|---|---|---|---|---|")
	for _, l := range looks(dead) {
		r := Result{Comparison: "console", Name: l.name, N: turns, Concurrency: 1,
			Extra: map[string]float64{}}
		var took []time.Duration
		for n := range turns + 1 { // the first one warms up
			h := console.New("", source, &console.Options{Deadline: time.Minute,
				Logger: slog.New(slog.DiscardHandler)})
			q := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+l.url, http.NoBody).WithContext(ctx)
			q.RemoteAddr = "127.0.0.1:1"
			w := httptest.NewRecorder()
			count.statements.Store(0)
			count.trips.Store(0)
			at := time.Now()
			h.ServeHTTP(w, q)
			if n > 0 {
				took = append(took, time.Since(at))
			}
			if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "is away") {
				r.Note = fmt.Sprintf("%s answers %d: %s", l.url, w.Code, w.Body)
			}
			r.Extra["statements"], r.Extra["trips"], r.Extra["kb"] = float64(count.statements.Load()),
				float64(count.trips.Load()), float64(w.Body.Len())/1000
		}
		slices.Sort(took)
		r.P50, r.P99 = quantile(took, .5), quantile(took, 1)
		fmt.Fprintf(b.out, "| %s | %.0f | %.0f | %s (%s–%s) | %.0f |\n", l.name, r.Extra["statements"],
			r.Extra["trips"], figure(r.P50), figure(quantile(took, 0)), figure(r.P99), r.Extra["kb"])
		if r.Note != "" {
			fmt.Fprintln(b.errs, r.Note)
		}
		each(r)
	}
	return nil
}
