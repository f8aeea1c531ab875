package pgstore

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
	"github.com/skald-go/skald/store/storetest"
)

// through returns a bed in its own database, whose drivers use PgBouncer in transaction mode. No other test
// shares the pooler's sessions of that database, so those of the bed can be ended.
func through(t testing.TB) *bed {
	t.Helper()
	direct, pooler := need.Postgres(t), need.PgBouncer(t)
	name := fmt.Sprintf("skald_through_%d_%d", time.Now().UnixNano(), schemas.Add(1))
	admin, err := pgx.Connect(context.Background(), direct)
	if err != nil {
		t.Fatal(err)
	}
	do := func(sql string) {
		if _, err := admin.Exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
	}
	do("CREATE DATABASE " + name + " TEMPLATE template0")
	t.Cleanup(func() {
		do("DROP DATABASE " + name + " WITH (FORCE)")
		_ = admin.Close(context.Background())
	})
	b := newBedAt(t, inDatabase(t, direct, name))
	b.through = inDatabase(t, pooler, name)
	return b
}

func inDatabase(t testing.TB, at, name string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func TestConformanceThroughPgBouncer(t *testing.T) {
	t.Parallel()
	modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
	if knowsStatements(t) {
		modes = append(modes, pgx.QueryExecModeCacheStatement)
	}
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			h := harnessOf(through(t), mode)
			h.Sample = sixteenth
			if mode == pgx.QueryExecModeCacheDescribe { // the mode that the remedy names
				h.Sample = eighth
			}
			storetest.Run(t, h)
		})
	}
	t.Run("database/sql", func(t *testing.T) {
		t.Parallel()
		h := harnessOfSQL(through(t), pgx.QueryExecModeCacheDescribe)
		h.Sample = sixteenth
		storetest.Run(t, h)
	})
}

// TestLostNamedStatementNamesTheRemedy checks a pooler without support for named statements, which gives a
// session to a client that has not prepared them, or has prepared others.
func TestLostNamedStatementNamesTheRemedy(t *testing.T) {
	t.Parallel()
	if knowsStatements(t) {
		t.Skip("this pooler supports named statements")
	}
	b := through(t)
	ctx := context.Background()
	var lost int
	for range 20 {
		a, c := b.storeIn(t, pgx.QueryExecModeCacheStatement), b.storeIn(t, pgx.QueryExecModeCacheStatement)
		for _, s := range []*Store{a, c, a, c} {
			u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{aMark()}})
			if err == nil {
				_, err = u.Rollback(ctx)
			}
			if err == nil {
				continue
			}
			lost++
			code := sqlexec.SQLState(err)
			if code != sqlexec.UnknownStatement && code != sqlexec.DoubledStatement {
				t.Fatalf("another error: %v", err)
			}
			if !strings.Contains(err.Error(), "default_query_exec_mode=cache_describe") || !s.Outage(err) {
				t.Fatalf("outage %t, without its remedy: %v", s.Outage(err), err)
			}
		}
	}
	if lost == 0 {
		t.Error("no statement was lost: the pooler is none in transaction mode")
	}
}

// knowsStatements reports whether PgBouncer supports named statements: from 1.21 on, with
// max_prepared_statements above 0.
func knowsStatements(t testing.TB) bool {
	t.Helper()
	config, err := pgx.ParseConfig(need.PgBouncer(t))
	if err != nil {
		t.Fatal(err)
	}
	config.Database, config.DefaultQueryExecMode = "pgbouncer", pgx.QueryExecModeSimpleProtocol // its console
	conn, err := pgx.ConnectConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	rows, err := conn.Query(context.Background(), "SHOW CONFIG")
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d settings: %v", len(all), err)
	}
	for _, one := range all {
		if one["key"] == "max_prepared_statements" {
			return one["value"] != "0"
		}
	}
	return false
}

// TestConformanceOnOtherVersions runs the suite on other versions. All other tests use the default server,
// on Debian 12 the oldest supported version.
func TestConformanceOnOtherVersions(t *testing.T) {
	t.Parallel()
	for _, major := range []string{"15", "16", "17", "18"} {
		t.Run(major, func(t *testing.T) {
			t.Parallel()
			h := harnessOf(newBedAt(t, need.PostgresVersion(t, major)), pgx.QueryExecModeCacheStatement)
			h.Sample = eighth
			storetest.Run(t, h)
		})
	}
}
