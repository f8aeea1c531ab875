package orm

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// A tracer is a driver around pgx's, as those that measure and trace are.
type tracer struct {
	driver.Connector
	opaque bool // it has no method Raw
}

func (t tracer) Driver() driver.Driver { return tracedDriver{t.Connector.Driver()} }

type tracedDriver struct{ driver.Driver }

func (t tracer) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := t.Connector.Connect(ctx)
	if err != nil || t.opaque {
		return opaque{c}, err
	}
	return traced{opaque{c}}, nil
}

type opaque struct{ driver.Conn }

func (c opaque) QueryContext(ctx context.Context, query string,
	args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c opaque) ExecContext(ctx context.Context, query string,
	args []driver.NamedValue) (driver.Result, error) {
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c opaque) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}

type traced struct{ opaque }

func (c traced) Raw() driver.Conn { return c.Conn }

// A driver that only traces is seen through; one that hides what is below it is refused, with what to do.
func TestTracedDriver(t *testing.T) {
	b := newBed(t)
	config := connect(t, b.url).Config()
	for name, hides := range map[string]bool{"that tells": false, "that hides": true} {
		t.Run(name, func(t *testing.T) {
			db := sql.OpenDB(tracer{stdlib.GetConnector(*config), hides})
			defer func() { _ = db.Close() }()
			s := pgstore.NewSQL(db, nil)
			err := s.Check(t.Context(), store.App)
			if hides {
				if err == nil || !strings.Contains(err.Error(), "stdlib") ||
					!strings.Contains(err.Error(), "sql.Open") {
					t.Errorf("it is not refused by name: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			u, err := s.Begin(t.Context(), store.Intake{Marks: []store.Mark{mark()}})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Write(t.Context(), u.Tx(), said("a"), said("b")); err != nil {
				t.Fatal(err)
			}
			if err := u.Commit(t.Context(), said("c")); err != nil {
				t.Fatal(err)
			}
			if n := b.Count(t); n.Rows != 3 || n.Marks != 1 {
				t.Errorf("%+v", n)
			}
		})
	}
}
