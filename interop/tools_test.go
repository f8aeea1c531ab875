package interop

import (
	"context"
	"database/sql"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"ariga.io/atlas/sql/migrate"
	"ariga.io/atlas/sql/postgres"
	"github.com/amacneil/dbmate/v2/pkg/dbmate"
	_ "github.com/amacneil/dbmate/v2/pkg/driver/postgres"
)

func TestDbmate(t *testing.T) {
	at, bin, dir := database(t), command(t), t.TempDir()
	write(t, dir, "20260101000000_ours.sql",
		"-- migrate:up\nCREATE TABLE ours (id int);\n\n-- migrate:down\nDROP TABLE ours;\n")
	files(t, bin, at, "dbmate", dir)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	db := dbmate.New(u)
	db.MigrationsDir, db.AutoDumpSchema, db.Log, db.Strict = []string{dir}, false, io.Discard, true
	for range 2 { // it can run again
		if err := db.Migrate(); err != nil {
			t.Fatal(err)
		}
	}
	if said := files(t, bin, at, "dbmate", dir); said != "up to date\n" {
		t.Errorf("again it said %s", said)
	}
	whole(t, at)
}

// What `atlas migrate hash` and `atlas migrate apply` do, by Atlas' own library: a file is taken apart into
// statements, which are run one by one, in a transaction.
func TestAtlas(t *testing.T) {
	at, bin, path := database(t), command(t), t.TempDir()
	write(t, path, "20260101000000_ours.sql", "CREATE TABLE ours (id int);\n")
	if said := files(t, bin, at, "atlas", path); !strings.Contains(said, "atlas migrate hash") {
		t.Errorf("it said %s", said)
	}
	dir, err := migrate.NewLocalDir(path)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := dir.Checksum()
	if err != nil {
		t.Fatal(err)
	}
	if err := migrate.WriteSumFile(dir, sum); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	done := revisions{}
	for { // a transaction for each file, as the command does by default
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		drv, err := postgres.Open(tx)
		if err != nil {
			t.Fatal(err)
		}
		run, err := migrate.NewExecutor(drv, dir, done, migrate.WithAllowDirty(true))
		if err != nil {
			t.Fatal(err)
		}
		pending, err := run.Pending(t.Context())
		if err != nil {
			if strings.Contains(err.Error(), migrate.ErrNoPendingFiles.Error()) {
				_ = tx.Rollback()
				break
			}
			t.Fatal(err)
		}
		if err := run.Execute(t.Context(), pending[0]); err != nil {
			t.Fatalf("%s: %v", pending[0].Name(), err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if said := files(t, bin, at, "atlas", path); said != "up to date\n" {
		t.Errorf("again it said %s", said)
	}
	whole(t, at)
}

// revisions are what Atlas keeps in a table.
type revisions map[string]*migrate.Revision

func (r revisions) Ident() *migrate.TableIdent { return &migrate.TableIdent{Name: "revisions"} }

func (r revisions) ReadRevisions(context.Context) ([]*migrate.Revision, error) {
	return slices.SortedFunc(maps.Values(r),
		func(a, b *migrate.Revision) int { return strings.Compare(a.Version, b.Version) }), nil
}

func (r revisions) ReadRevision(_ context.Context, v string) (*migrate.Revision, error) {
	if one, ok := r[v]; ok {
		return one, nil
	}
	return nil, migrate.ErrRevisionNotExist
}

func (r revisions) WriteRevision(_ context.Context, one *migrate.Revision) error {
	r[one.Version] = one
	return nil
}

func (r revisions) DeleteRevision(_ context.Context, v string) error {
	delete(r, v)
	return nil
}
