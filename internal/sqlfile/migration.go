package sqlfile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Migration is a file NNN_name.sql.
type Migration struct {
	Version  int
	Name     string // the name of the file
	Checksum string // SHA-256 of the file, in hexadecimal
	Text     string
	// Builds is the schema version that a build must know to use the tables after this migration. It is 0,
	// which means any version, if the migration only adds something. Otherwise the file has a line "--
	// builds from N".
	Builds int
}

// Migrations reads the migrations in the folder dir of files, in order.
func Migrations(files fs.FS, dir string) ([]Migration, error) {
	names, err := fs.Glob(files, path.Join(dir, "*.sql"))
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	var out []Migration
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		sum := sha256.Sum256(text)
		one := Migration{Name: path.Base(name), Checksum: hex.EncodeToString(sum[:]), Text: string(text)}
		number, _, _ := strings.Cut(one.Name, "_")
		if one.Version, err = strconv.Atoi(number); err != nil {
			return nil, fmt.Errorf("migration %s: its name begins with no number", one.Name)
		}
		if one.Builds, err = builds(one.Text); err != nil {
			return nil, fmt.Errorf("migration %s: %w", one.Name, err)
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Migration) int { return a.Version - b.Version })
	return out, nil
}

func builds(text string) (int, error) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "-- builds from "); ok {
			return strconv.Atoi(rest)
		}
	}
	return 0, nil
}

// Reached returns the schema version of a database, given the versions of the applied migrations. It is the
// version before the first migration that is not applied.
func Reached(files []Migration, applied []int) int {
	reached := 0
	for _, f := range files {
		if !slices.Contains(applied, f.Version) {
			return reached
		}
		reached = f.Version
	}
	return max(reached, slices.Max(append(applied, 0)))
}
