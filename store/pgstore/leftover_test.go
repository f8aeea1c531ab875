package pgstore

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald/store"
)

// A pool sets a role when it connects, or ALTER ROLE does, and that role loses a right after a function had
// the connection. The error names the right: it is none of a setting that the function left.
func TestMissingRightWhereThePoolSetsARole(t *testing.T) {
	t.Parallel()
	for name, log := range map[string]func(t *testing.T, b *bed, role string, c *pgxpool.Config){
		"AfterConnect": func(_ *testing.T, _ *bed, role string, c *pgxpool.Config) {
			c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
				_, err := conn.Exec(ctx, "SET ROLE "+role+
					"; SET search_path = pg_catalog; SET statement_timeout = '1min'")
				return err
			}
		},
		"ALTER ROLE": func(t *testing.T, b *bed, role string, c *pgxpool.Config) {
			name := b.role(t, "app")
			login := pgx.Identifier{name}.Sanitize()
			b.exec(t, "REVOKE ALL ON ALL TABLES IN SCHEMA "+pgx.Identifier{b.schema}.Sanitize()+
				" FROM "+login)
			b.exec(t, "GRANT "+role+" TO "+login)
			b.exec(t, "ALTER ROLE "+login+" SET role = "+role)
			c.ConnConfig.User = name
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			role := pgx.Identifier{b.role(t, "app")}.Sanitize()
			config := b.few(t, pgx.QueryExecModeCacheStatement, 1).Config() // the connection that was lent
			log(t, b, role, config)
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { go pool.Close() })
			o := &Options{Schema: b.schema}
			missingRight(t, b, role, New(pool, o))
			missingRight(t, b, role, NewSQL(stdlib.OpenDBFromPool(pool), o))
		})
	}
}

// missingRight takes a right from role after a function had the connection. Then Begin and Apply name it.
func missingRight[TTx any](t *testing.T, b *bed, role string, s store.Driver[TTx]) {
	t.Helper()
	ctx := t.Context()
	begin := func() error {
		u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{aMark()}})
		if err == nil {
			_, err = u.Rollback(ctx)
		}
		return err
	}
	if err := begin(); err != nil {
		t.Fatal(err)
	}
	b.exec(t, "REVOKE INSERT ON {skald_mark} FROM "+role)
	defer b.exec(t, "GRANT INSERT ON {skald_mark} TO "+role)
	for range 2 {
		m := aMark()
		_, applied := s.Apply(ctx, store.Effect{Mark: &m})
		for _, err := range []error{begin(), applied} {
			var right *store.RightError
			if !errors.As(err, &right) || s.Outage(err) {
				t.Errorf("without the right: %v", err)
			}
		}
	}
}
