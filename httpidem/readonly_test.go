package httpidem_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store/pgstore"
)

// If a handler makes its own transaction READ ONLY, it fails: the answer is 500 and no row is stored. If the
// server is read-only, this is an outage: the answer is 503.
func TestReadOnly(t *testing.T) {
	t.Run("pgx", func(t *testing.T) {
		testReadOnly(t, onPgx(t), func(tx pgx.Tx, text string) error {
			_, err := tx.Exec(context.Background(), text)
			return err
		})
	})
	t.Run("database-sql", func(t *testing.T) {
		testReadOnly(t, onDatabaseSQL(t), func(tx *sql.Tx, text string) error {
			_, err := tx.Exec(text)
			return err
		})
	})
	t.Run("standby", func(t *testing.T) {
		c := need.NewCluster(t, "fsync = off")
		primary, err := pgxpool.New(t.Context(), c.URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(primary.Close)
		if _, err := pgstore.Migrate(t.Context(), primary, nil); err != nil {
			t.Fatal(err)
		}
		pool, err := pgxpool.New(t.Context(), c.Standby().URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		never := func(context.Context, pgx.Tx, httpidem.Request[order]) (httpidem.Reply[string], error) {
			t.Error("the handler runs on a standby")
			return httpidem.OK("done"), nil
		}
		answers(t, post{key: "a", body: "{}"}.to(httpidem.Handle(pgstore.New(pool, nil), "orders",
			httpidem.OneTenant, quiet(), never)), 503, "send the same request again")
		db := stdlib.OpenDBFromPool(pool)
		answers(t, post{key: "a", body: "{}"}.to(httpidem.Handle(pgstore.NewSQL(db, nil), "orders",
			httpidem.OneTenant, quiet(), func(context.Context, *sql.Tx,
				httpidem.Request[order]) (httpidem.Reply[string], error) {
				return httpidem.OK("done"), nil
			})), 503, "send the same request again")
	})
}

func testReadOnly[TTx any](t *testing.T, g *ground[TTx], exec func(TTx, string) error) {
	s := &shop[TTx]{ground: g}
	wrap := func(err error) error { return err }
	var writes, swallows bool
	h := httpidem.Handle(g.db, "orders", httpidem.OneTenant, quiet(), func(ctx context.Context, tx TTx,
		q httpidem.Request[order]) (httpidem.Reply[view], error) {
		if err := exec(tx, "SET TRANSACTION READ ONLY"); err != nil {
			return httpidem.Reply[view]{}, err
		}
		switch {
		case writes: // Skald's statement fails
			return s.serve(ctx, tx, q)
		case swallows: // the commit fails
			return httpidem.OK(view{"o-1"}), nil
		}
		return httpidem.Reply[view]{}, wrap(g.note(tx, "placed", q.Body.SKU))
	})
	ask := func(key string) {
		t.Helper()
		for range 2 {
			answers(t, post{key: key, body: `{"SKU":"tea"}`}.to(h), 500, "the service failed")
		}
	}
	ask("its own statement")
	wrap = func(err error) error { return fmt.Errorf("place: %w", err) }
	ask("wrapped")
	writes = true
	ask("the outbox")
	writes, swallows = false, true
	ask("the commit")
	g.wantList(t, "placed", "")
	s.wantOutbox(t, 0)
	s2 := &shop[TTx]{ground: g} // the endpoint goes on
	answers(t, post{key: "b", body: `{"SKU":"salt"}`}.to(s2.endpoint(quiet())), 201, "o-1")
}
