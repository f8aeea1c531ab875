package orm

import (
	"context"
	"database/sql"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store/pgstore"
)

// A transaction that commits leaves its orders and their messages; one that does not leaves neither: here the
// second order of two has the id of the first.
func TestOutboxInOnesOwnTransaction(t *testing.T) {
	type place func(ctx context.Context, orders ...Order) error
	overSQL := func(t *testing.T, b *bed, driver string) (*sql.DB, Outbox) {
		db := b.open(t, driver)
		return db, outbox.New(pgstore.NewSQL(db, nil), nil)
	}
	withGORM := func(driver string, prepare bool) func(*testing.T, *bed) place {
		return func(t *testing.T, b *bed) place {
			db, out := overSQL(t, b, driver)
			g, err := gorm.Open(postgres.New(postgres.Config{Conn: db}),
				&gorm.Config{PrepareStmt: prepare, Logger: logger.Discard})
			if err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context, orders ...Order) error {
				return PlaceWithGORM(ctx, g, out, orders...)
			}
		}
	}
	for name, open := range map[string]func(*testing.T, *bed) place{
		"gorm":                     withGORM("pgx", false),
		"gorm prepares statements": withGORM("pgx", true),
		"gorm over lib/pq":         withGORM("postgres", false),
		"sqlx": func(t *testing.T, b *bed) place {
			db, out := overSQL(t, b, "pgx")
			x := sqlx.NewDb(db, "pgx")
			return func(ctx context.Context, orders ...Order) error {
				return PlaceWithSQLX(ctx, x, out, orders...)
			}
		},
		"sqlx over lib/pq": func(t *testing.T, b *bed) place {
			db, out := overSQL(t, b, "postgres")
			x := sqlx.NewDb(db, "postgres")
			return func(ctx context.Context, orders ...Order) error {
				return PlaceWithSQLX(ctx, x, out, orders...)
			}
		},
		"bun": func(t *testing.T, b *bed) place {
			db, out := overSQL(t, b, "pgx")
			x := bun.NewDB(db, pgdialect.New())
			return func(ctx context.Context, orders ...Order) error {
				return PlaceWithBun(ctx, x, out, orders...)
			}
		},
		"sqlc": func(t *testing.T, b *bed) place {
			pool, err := pgxpool.New(t.Context(), b.url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			out := outbox.New(pgstore.New(pool, nil), nil)
			return func(ctx context.Context, orders ...Order) error {
				return PlaceWithSQLC(ctx, pool, out, orders...)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			place := open(t, b)
			if err := place(t.Context(), Order{"o-1", 100}, Order{"o-2", 250}); err != nil {
				t.Fatal(err)
			}
			if err := place(t.Context(), Order{"o-3", 100}, Order{"o-1", 300}); err == nil {
				t.Fatal("a second order has the id of the first")
			}
			orders := one[[]string](t, b, "SELECT array_agg(id || ' ' || cents ORDER BY id) FROM orders")
			said := one[[]string](t, b,
				"SELECT array_agg(topic || ' ' || type || ' ' || key || ' ' || data ORDER BY seq) FROM skald_outbox")
			if !slices.Equal(orders, []string{"o-1 100", "o-2 250"}) {
				t.Errorf("orders %q", orders)
			}
			if want := []string{`orders order.placed o-1 {"ID":"o-1","Cents":100}`,
				`orders order.placed o-2 {"ID":"o-2","Cents":250}`}; !slices.Equal(said, want) {
				t.Errorf("said %q, want %q", said, want)
			}
		})
	}
}

// What GORM rolls back to its savepoint is not said, the rest is.
func TestSavepointOfGORM(t *testing.T) {
	b := newBed(t)
	db := b.open(t, "pgx")
	out := outbox.New(pgstore.NewSQL(db, nil), nil)
	g, err := gorm.Open(postgres.New(postgres.Config{Conn: db}), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	err = g.WithContext(t.Context()).Transaction(func(tx *gorm.DB) error {
		if err := PlaceWithGORM(t.Context(), tx, out, Order{"o-1", 1}); err != nil {
			return err
		}
		if err := PlaceWithGORM(t.Context(), tx, out, Order{"o-2", 2}, Order{"o-1", 2}); err == nil {
			t.Error("a second order has the id of the first")
		}
		return PlaceWithGORM(t.Context(), tx, out, Order{"o-3", 3})
	})
	if err != nil {
		t.Fatal(err)
	}
	if keys := one[[]string](t, b, "SELECT array_agg(key ORDER BY seq) FROM skald_outbox"); !slices.Equal(
		keys, []string{"o-1", "o-3"}) {
		t.Errorf("said %q", keys)
	}
}
