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

// Take copies the file at path to a new file at newPath, while services write. The copy is one snapshot.
// Take checks the copy and flushes it to the disk before it gives the copy its final name. An interrupted
// backup leaves a file with the suffix ".part", and the next backup replaces that file. Take returns an
// error if newPath exists, or if there is no file at path.
func Take(ctx context.Context, path, newPath string) (err error) {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	if _, err := os.Lstat(newPath); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("back up %s: %s exists already: remove it or use another name", path, newPath)
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
	part := newPath + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("back up %s: remove the file of an interrupted backup: %w", path, err)
	}
	if _, err := db.ExecContext(ctx, text["Backup"], part); err != nil {
		return errors.Join(fmt.Errorf("back up %s: %w", path, err), dropped(part))
	}
	if err := checkFile(ctx, part, text["QuickCheck"]); err != nil {
		return errors.Join(fmt.Errorf("back up %s: the copy: %w", path, err), dropped(part))
	}
	if err := synced(part); err != nil {
		return fmt.Errorf("back up %s: %w", path, err)
	}
	if err := os.Link(part, newPath); err != nil { // os.Rename would replace an existing file
		return fmt.Errorf("back up %s: %w", path, err)
	}
	if err := os.Remove(part); err != nil {
		return fmt.Errorf("back up %s: %w", path, err)
	}
	if err := synced(filepath.Dir(newPath)); err != nil {
		return fmt.Errorf("back up %s: %s is written, but a crash may remove it from its folder: %w",
			path, newPath, err)
	}
	return nil
}

// dropped removes the file of a failed backup.
func dropped(part string) error {
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// checkFile returns an error unless the check of SQLite finds the file at path intact. It changes nothing.
func checkFile(ctx context.Context, path, check string) (err error) {
	c, err := sqlite.NewConnector("file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=ro&immutable=1")
	if err != nil {
		return err
	}
	db := sql.OpenDB(c)
	defer func() { err = errors.Join(err, db.Close()) }()
	var result string
	if err := db.QueryRowContext(ctx, check).Scan(&result); err != nil {
		return err
	}
	if result != "ok" {
		return errors.New(result)
	}
	return nil
}

// synced flushes a file, or the list of names in a folder, to the disk.
func synced(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
