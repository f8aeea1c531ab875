package place

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/store/sqlitestore"
)

// SQLite returns the databases in folder, one file for each service.
func SQLite(folder string) *Databases[*sql.Tx] { return databases(files{folder}) }

type files struct{ folder string }

// idle limits the idle connections to a file, because each has its own page cache.
const idle = 2

func (f files) path(service string) string { return filepath.Join(f.folder, service+".db") }

// flags returns an absolute path, for use in another terminal.
func (f files) flags(service string) string {
	path, err := filepath.Abs(f.path(service))
	if err != nil {
		path = f.path(service)
	}
	return "--store " + quoted("sqlite:"+path)
}

func (f files) prepare(ctx context.Context, service string) (err error) {
	if err := os.MkdirAll(f.folder, 0o755); err != nil {
		return err
	}
	db, err := sqlitestore.Open(f.path(service))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = sqlitestore.Migrate(ctx, db, nil)
	return err
}

func (f files) empty(_ context.Context, name string) error {
	if err := os.MkdirAll(f.folder, 0o755); err != nil {
		return err
	}
	db, err := sqlitestore.Open(f.path(name))
	if err != nil {
		return err
	}
	return db.Close()
}

func (f files) open(_ context.Context,
	service string) (home table.Home[*sql.Tx], closing func() error, err error) {
	if _, err := os.Stat(f.path(service)); errors.Is(err, fs.ErrNotExist) {
		return home, nil, fmt.Errorf("%w: there is no file %s", ErrNone, f.path(service))
	}
	db, err := sqlitestore.Open(f.path(service))
	if err != nil {
		return home, nil, err
	}
	db.SetMaxIdleConns(idle)
	return table.SQLite(db, sqlitestore.New(db, nil)), db.Close, nil
}
