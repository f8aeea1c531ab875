package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/store/sqlitestore"
)

// files is a folder of SQLite files.
type files struct {
	folder string
	sql    map[string]string
	order  *sql.DB // Order's, once it was needed
}

func newFiles(o *Options, statements map[string]string) *ground[*sql.Tx] {
	f := &files{folder: strings.TrimPrefix(o.Store, "sqlite:"), sql: statements}
	return &ground[*sql.Tx]{Databases: place.SQLite(f.folder), kind: f, sql: statements}
}

func (f *files) called(service string) string { return filepath.Join(f.folder, service+".db") }
func (f *files) url() string                  { return "sqlite:" + f.folder }

func (f *files) remains() string {
	return fmt.Sprintf("The databases are in %s; to remove them: rm -r %s", f.folder, f.folder)
}

func (f *files) present(ctx context.Context, service string) (names []string, err error) {
	if _, err := os.Stat(f.called(service)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	db, err := sqlitestore.Open(f.called(service))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = table.All(ctx, table.SQL(db), f.sql["TablesInFile"], nil, func(row table.Row) error {
		names = append(names, "")
		return row.Scan(&names[len(names)-1])
	})
	return names, err
}

func (f *files) bare(context.Context) (home table.Home[*sql.Tx], err error) {
	if err := os.MkdirAll(f.folder, 0o755); err != nil {
		return home, err
	}
	if f.order, err = sqlitestore.Open(f.called("order")); err != nil {
		return home, err
	}
	return table.SQLite(f.order, nil), nil
}

func (f *files) first(context.Context) (string, error) { return "", nil }

// lock is a transaction that writes to a file of its own.
func (f *files) lock(ctx context.Context) (func(), error) {
	db, err := sqlitestore.Open(filepath.Join(f.folder, "demo.lock"))
	if err != nil {
		return nil, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		err = errors.Join(err, db.Close())
		if sqlitestore.New(db, nil).Outage(err) && ctx.Err() == nil {
			err = errOther(f.folder)
		}
		return nil, err
	}
	return func() { _, _ = tx.Rollback(), db.Close() }, nil
}

func (f *files) close() error {
	if f.order == nil {
		return nil
	}
	return f.order.Close()
}
