package pgstore

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestHeldEntitiesAreFoundByTheIndex checks that the entities of a saga are found by the index among all
// that were ever locked. They are locked in the order of their bytes, as handlers lock them, for any
// collation of the database.
func TestHeldEntitiesAreFoundByTheIndex(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.store(t)
	ctx := context.Background()
	b.exec(t, `INSERT INTO {skald_entity} (space, key, version)
		SELECT 'account', n::text::bytea, 1 FROM generate_series(1, 20000) AS n`)
	b.exec(t, `INSERT INTO {skald_hold} (space, key, place, holder, name, saga_key)
		SELECT 'account', n::text::bytea, 1, n::text, 'order', 'o' FROM generate_series(1, 2000) AS n`)
	b.exec(t, `ANALYZE {skald_entity}`)
	b.exec(t, `ANALYZE {skald_hold}`)
	sql := strings.ReplaceAll(s.pg.SQL["LockHeldEntities"], "$1::text", "'7'")
	rows, err := b.pool.Query(ctx, "EXPLAIN "+sql, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if text := strings.Join(plan, "\n"); err != nil || strings.Contains(text, "Seq Scan") ||
		!strings.Contains(text, "((space = h.space) AND (key = h.key))") {
		t.Error(text, err)
	}
}
