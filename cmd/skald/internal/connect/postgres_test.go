package connect

import (
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/internal/need"
)

// named counts what the server has prepared by name on one connection behind which something was asked twice.
func named(t *testing.T, at string) (n int) {
	t.Helper()
	cfg, err := PoolConfig(at)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	for range 2 {
		// Other clients of a pooler prepare on its connections, too.
		if err := tx.QueryRow(t.Context(),
			"SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%mine%'").Scan(
			&n); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func TestStatementsAreNamedUnlessThereIsAPooler(t *testing.T) {
	t.Parallel()
	direct := need.Postgres(t)
	if n := named(t, direct); n != 1 {
		t.Errorf("%d statements with a name on a connection to the server, not 1", n)
	}
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("default_query_exec_mode", "exec")
	u.RawQuery = q.Encode()
	if n := named(t, u.String()); n != 0 {
		t.Errorf("%d statements with a name though the URL wants none", n)
	}
	if n := named(t, need.PgBouncer(t)); n != 0 {
		t.Errorf("%d statements with a name behind a pooler, not 0", n)
	}
}
