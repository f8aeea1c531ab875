package sagatest_test

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/internal/pgbed"
	"github.com/skald-go/skald/sagatest"
)

// openPostgres gives each world the same database, restored.
func openPostgres(t *testing.T) func(w *sagatest.World) (*place.Databases[pgx.Tx], error) {
	t.Helper()
	server := need.Postgres(t)
	name := "saga_" + strings.ToLower(rand.Text()[:10])
	exec := func(ctx context.Context, conn *pgx.Conn, sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	admin := connect(t, server)
	exec(t.Context(), admin, "CREATE DATABASE "+name)
	t.Cleanup(func() { exec(context.Background(), admin, "DROP DATABASE "+name+" WITH (FORCE)") })
	at, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	at.Path = "/" + name
	conn := connect(t, at.String())
	open := func() *place.Databases[pgx.Tx] {
		dbs, err := place.Postgres(at.String(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		return dbs
	}
	prepareAll(t, open())
	var schemas []string
	for _, service := range service.Names() {
		schemas = append(schemas, "shop_"+service)
	}
	made := pgbed.Keep(t, pgbed.Over(conn), schemas...)
	dbs := open()
	t.Cleanup(func() { _ = dbs.Close() })
	return func(*sagatest.World) (*place.Databases[pgx.Tx], error) {
		_, err := conn.Exec(context.Background(), made.SQL)
		return dbs, err
	}
}

func connect(t *testing.T, at string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// TestExploreShopOnPostgreSQL injects single faults into the shop on PostgreSQL; a sample of them unless
// need.All is set.
func TestExploreShopOnPostgreSQL(t *testing.T) {
	t.Parallel()
	sagatest.Explore(t, buildShop(openPostgres(t), nil), &sagatest.Options{
		Modes: []sagatest.Mode{sagatest.CrashBefore, sagatest.CrashAfter, sagatest.ErrorAfter,
			sagatest.PartFirst, sagatest.PartLast},
		Sample: sampleOfReal(4, 60), Failures: 3, Rest: time.Second,
	})
}
