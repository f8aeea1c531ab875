// This file creates and updates the tables of a database: migrations, the source, and the slots of the
// ring.

package admin

import (
	"io/fs"
	"strconv"
	"strings"

	"github.com/skald-go/skald/internal/sqlfile"
)

// Newest returns the version of the last migration, or least if none can be read.
func Newest(files fs.FS, least int) int {
	all, err := sqlfile.Migrations(files, ".")
	if err != nil || len(all) == 0 {
		return least
	}
	return all[len(all)-1].Version
}

// Reached returns the schema version. Applied lists the migrations, as statement Version returns them.
func Reached(files fs.FS, applied string) (int, error) {
	all, err := sqlfile.Migrations(files, ".")
	if err != nil {
		return 0, err
	}
	var have []int
	for text := range strings.SplitSeq(applied, ",") {
		if n, err := strconv.Atoi(text); err == nil {
			have = append(have, n)
		}
	}
	return sqlfile.Reached(all, have), nil
}
