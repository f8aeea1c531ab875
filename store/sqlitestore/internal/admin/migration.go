// The files migration*.go create and update the tables in a file, and check whether a build supports them.

package admin

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"

	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// Tables has the migrations that a build applies and supports.
type Tables struct {
	Files  fs.FS // the migrations, in order: NNN_name.sql
	Oldest int   // the oldest version that the build supports
}

// Migration is one applied or pending file of Tables.Files.
type Migration struct {
	Version  int
	Name     string // of the file
	Checksum string // SHA-256 of the file, in hexadecimal
}

// SourceError reports that messages of this database already have another source.
type SourceError struct{ Where, Have, Want string }

func (e *SourceError) Error() string {
	return fmt.Sprintf("migrate: messages of %s have the source %q, which cannot change to %q", e.Where,
		e.Have, e.Want)
}

// ChangedError reports that a migration was changed after it was applied.
type ChangedError struct{ Where, Name string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf(
		"migrate: %s was applied to %s with a text that differs from this build's: do not edit an applied migration",
		e.Name, e.Where)
}

// Apply creates the tables in the file of db or updates them, each migration in its own transaction. It
// returns the migrations that it applied. Concurrent calls wait for each other.
func (t Tables) Apply(ctx context.Context, db *sql.DB, source string) (applied []Migration, err error) {
	m, err := t.migrator(ctx, db)
	if err != nil {
		return nil, sqlexec.Failed("migrate", err)
	}
	m.source = source
	have, err := m.applied(ctx, db)
	if err == nil {
		err = m.usable(have)
	}
	if err != nil {
		return nil, sqlexec.Failed("migrate", err)
	}
	for _, one := range m.files {
		did, err := m.apply(ctx, one)
		if err != nil {
			return applied, sqlexec.Failed("migrate "+one.Name, err)
		}
		if did {
			applied = append(applied, Migration{one.Version, one.Name, one.Checksum})
		}
	}
	return applied, m.sameSource(ctx)
}

// Pending returns the migrations that Apply would apply. It changes nothing.
func (t Tables) Pending(ctx context.Context, db *sql.DB) ([]Migration, error) {
	m, err := t.migrator(ctx, db)
	if err != nil {
		return nil, sqlexec.Failed("pending migrations", err)
	}
	have, err := m.applied(ctx, db)
	if err != nil {
		return nil, sqlexec.Failed("pending migrations", err)
	}
	var out []Migration
	for _, one := range m.files {
		switch was, ok := have[one.Version]; {
		case !ok:
			out = append(out, Migration{one.Version, one.Name, one.Checksum})
		case was.Checksum != one.Checksum:
			return nil, &ChangedError{m.file, one.Name}
		}
	}
	return out, m.usable(have)
}
