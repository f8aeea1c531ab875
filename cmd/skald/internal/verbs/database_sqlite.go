package verbs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store/sqlitestore"
)

// file is an SQLite file.
type file struct{ path, source string }

func (f file) Script() (string, error) { return sqlitestore.Script(f.path, f.source) }

func (f file) Pending(ctx context.Context) (names []string, err error) {
	if _, err := os.Stat(f.path); errors.Is(err, fs.ErrNotExist) {
		files, err := fs.Glob(sqlitestore.Migrations(), "*.sql")
		return files, err
	}
	db, err := sqlitestore.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	todo, err := sqlitestore.Pending(ctx, db)
	if err == nil && len(todo) == 0 { // without pending migrations Migrate only compares the source
		_, err = sqlitestore.Migrate(ctx, db, &sqlitestore.MigrateOptions{Source: f.source})
	}
	for _, one := range todo {
		names = append(names, one.Name)
	}
	return names, err
}

func (f file) Migrate(ctx context.Context) (names []string, err error) {
	if folder := filepath.Dir(f.path); !isFolder(folder) {
		return nil, &cli.NoneError{What: "there is no folder " + folder +
			": create it, or give another --store"}
	}
	db, err := sqlitestore.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	did, err := sqlitestore.Migrate(ctx, db, &sqlitestore.MigrateOptions{Source: f.source})
	for _, one := range did {
		names = append(names, one.Name)
	}
	return names, err
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (f file) Stores(_ context.Context, r Rooms) ([]relay.Source, func(), error) {
	if len(r.Schemas) > 0 || r.Connections != 0 || r.WAL || r.ReadBy != "" {
		return nil, nil,
			&cli.UsageError{
				What: "--schema, --connections, --wal and --read-by are for PostgreSQL: SQLite does not support them"}
	}
	if _, err := os.Stat(f.path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w: there is no file %s: run: skald migrate --store sqlite:%s",
			cli.ErrNone, f.path, f.path)
	}
	db, err := sqlitestore.Open(f.path)
	if err != nil {
		return nil, nil, err
	}
	return []relay.Source{sqlitestore.New(db, nil)}, func() { _ = db.Close() }, nil
}
