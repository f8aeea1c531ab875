package pgstore

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/internal/endpoint"
	"github.com/skald-go/skald/internal/testlog"
)

// TestPoolWithoutConnectTimeoutIsReportedOnce checks that a store whose pool has no connect timeout is
// reported once per process.
func TestPoolWithoutConnectTimeoutIsReportedOnce(t *testing.T) {
	for query, lines := range map[string]int{"": 1, "&connect_timeout=60": 1, "&connect_timeout=30": 0,
		"&connect_timeout=5": 0} {
		pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none?sslmode=disable"+query)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		log := &testlog.Log{}
		one := New(pool, nil)
		source, err := one.WAL("", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, db := range []any{one, source, one} {
			endpoint.Warn(t.Context(), log.Logger(), "relay", db)
		}
		if n := log.Count("level=WARN", "a connect to a silent server takes long", "add connect_timeout=5",
			"127.0.0.1:1"); n != lines {
			t.Errorf("%q: %d warnings, want %d:\n%s", query, n, lines, log)
		}
	}
}
