// The files tables*.go create and update the tables of a database: migrations, the source of its messages,
// and the slots of the ring.

package admin

import (
	"io/fs"
	"strconv"
	"strings"

	"github.com/skald-go/skald/internal/sqlfile"
)

// Newest returns the version of the last migration in files. If files has no readable migration, Newest
// returns the fallback.
func Newest(files fs.FS, fallback int) int {
	all, err := sqlfile.Migrations(files, ".")
	if err != nil || len(all) == 0 {
		return fallback
	}
	return all[len(all)-1].Version
}

// Reached returns the version of the tables. The text applied lists the applied migrations, in the form that
// the statement Version returns.
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
