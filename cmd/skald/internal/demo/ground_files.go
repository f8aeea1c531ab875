package demo

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/store/sqlitestore"
)

// lockFile is the file that a running demo locks.
const lockFile = "demo.lock"

// files is a folder of SQLite files.
type files struct {
	folder string
	sql    map[string]string
	order  *sql.DB // Order's database; nil until it is needed
}

// sqLite returns the playground in a folder. It opens nothing.
func sqLite(folder string) (*playground[*sql.Tx], error) {
	statements, err := table.Statements(queries)
	if err != nil {
		return nil, err
	}
	f := &files{folder: folder, sql: statements}
	return &playground[*sql.Tx]{Databases: place.SQLite(folder), groundKind: f}, nil
}

func (f *files) called(service string) string { return filepath.Join(f.folder, service+".db") }
func (f *files) URL() string                  { return "sqlite:" + f.folder }

func (f *files) Remains() string {
	return "The databases are in " + f.folder
}

func (f *files) Present(ctx context.Context, service string) (names []string, err error) {
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
	f.order.SetMaxIdleConns(1)
	return table.SQLite(f.order, nil), nil
}

func (f *files) First(context.Context) (string, error) { return "", nil }

// Lock opens a write transaction on lockFile. The end of the process also ends this lock.
func (f *files) Lock(ctx context.Context) (func(), error) {
	db, err := sqlitestore.Open(filepath.Join(f.folder, lockFile))
	if err != nil {
		return nil, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err == nil && (f.gone("order.db") || f.gone(lockFile)) { // removed while this process waited
		err = errors.Join(removed(f.folder), tx.Rollback())
	}
	if err != nil {
		err = errors.Join(err, db.Close())
		if sqlitestore.New(db, nil).Outage(err) && ctx.Err() == nil {
			err = lockedError(f.folder)
		}
		return nil, err
	}
	return func() { _, _ = tx.Rollback(), db.Close() }, nil
}

func (f *files) gone(name string) bool {
	_, err := os.Stat(filepath.Join(f.folder, name))
	return errors.Is(err, fs.ErrNotExist)
}

func (f *files) foreign(ctx context.Context, service string) (string, error) {
	names, err := f.Present(ctx, service)
	known := tables(service)
	names = slices.DeleteFunc(names, func(n string) bool {
		return slices.Contains(known, n) || strings.HasPrefix(n, "skald_") || strings.HasPrefix(n, "sqlite_")
	})
	return strings.Join(names, ", "), err
}

// drop removes the database file before its write-ahead log. If the process is killed in between, a log
// without its file is harmless, but a file without its log would lose data.
func (f *files) drop(_ context.Context, service string) error {
	if service == "order" {
		if err := f.close(); err != nil {
			return err
		}
		f.order = nil
	}
	return removeFiles(f.called(service), f.called(service)+"-wal", f.called(service)+"-shm")
}

func removeFiles(names ...string) error {
	for _, name := range names {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// otherFiles returns the files that may remain if no database has a table.
func (f *files) otherFiles() []string {
	return []string{"order.db", "order.db-wal", "order.db-shm", lockFile, lockFile + "-wal",
		lockFile + "-shm"}
}

// clean removes the lock file before it releases the lock. So a process that waits for the lock sees that the
// run was removed.
func (f *files) clean() (stays string, err error) {
	for _, name := range f.otherFiles() {
		if err := removeFiles(filepath.Join(f.folder, name)); err != nil {
			return "", err
		}
	}
	if err := os.Remove(f.folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		stays = "the folder stays: " + err.Error()
	}
	return stays, nil
}

func (f *files) Sweep() error {
	list, err := os.ReadDir(f.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	others := slices.ContainsFunc(list,
		func(e fs.DirEntry) bool { return !slices.Contains(f.otherFiles(), e.Name()) })
	if err != nil || others {
		return err
	}
	_, err = f.clean()
	return err
}

func (f *files) close() error {
	if f.order == nil {
		return nil
	}
	return f.order.Close()
}
