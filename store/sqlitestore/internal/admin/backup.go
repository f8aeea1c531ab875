// This file copies a file while services write.

package admin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"

	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// Take copies the file at path to a new file at to, while services write: the copy holds one moment, all of
// it. The copy is checked and is on the disk before it gets its name, so a backup that was interrupted leaves
// to as it was, and a file to + ".part" that the next backup replaces. It fails if to is there, or if there
// is no file at path.
func Take(ctx context.Context, path, to string) (err error) {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("back up %s: %s is there already: remove it, or give another name", path, to)
	}
	text, err := setup()
	if err != nil {
		return err
	}
	db, err := sqlexec.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	part := to + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("back up %s: remove what an interrupted backup left: %w", path, err)
	}
	if _, err := db.ExecContext(ctx, text["Backup"], part); err != nil {
		return errors.Join(fmt.Errorf("back up %s: %w", path, err), dropped(part))
	}
	if err := sound(ctx, part, text["QuickCheck"]); err != nil {
		return errors.Join(fmt.Errorf("back up %s: the copy: %w", path, err), dropped(part))
	}
	if err := synced(part); err != nil {
		return fmt.Errorf("back up %s: %w", path, err)
	}
	if err := os.Link(part, to); err != nil { // a rename would replace a file that came in between
		return fmt.Errorf("back up %s: %w", path, err)
	}
	if err := os.Remove(part); err != nil {
		return fmt.Errorf("back up %s: %w", path, err)
	}
	if err := synced(filepath.Dir(to)); err != nil {
		return fmt.Errorf("back up %s: %s is written, but whether its folder has it after a crash is not known: %w",
			path, to, err)
	}
	return nil
}

// dropped removes what a failed backup wrote.
func dropped(part string) error {
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sound fails unless SQLite finds the file at path whole. It changes nothing there.
func sound(ctx context.Context, path, check string) (err error) {
	c, err := sqlite.NewConnector("file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=ro&immutable=1")
	if err != nil {
		return err
	}
	db := sql.OpenDB(c)
	defer func() { err = errors.Join(err, db.Close()) }()
	var said string
	if err := db.QueryRowContext(ctx, check).Scan(&said); err != nil {
		return err
	}
	if said != "ok" {
		return errors.New(said)
	}
	return nil
}

// synced has a file, or a folder's names, on the disk.
func synced(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
