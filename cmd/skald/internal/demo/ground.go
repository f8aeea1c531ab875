// This file has the databases of a run: files in a folder, or schemas in PostgreSQL. It refuses databases of
// other programs, locks the run's own against a second demo, and removes them.

package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/table"
)

// playground has the databases of a run.
type playground[TTx any] struct {
	*place.Databases[TTx]
	groundKind[TTx]
	order *table.Home[TTx] // Order's database, without Skald; nil until it is needed
}

// groundKind has the operations that differ between SQLite and PostgreSQL.
type groundKind[TTx any] interface {
	// Present returns the names of the tables in a service's database, or nil if the database does not exist.
	Present(ctx context.Context, service string) ([]string, error)
	// First returns the statement to run before the first table is created in Order's database, in the same
	// transaction. It may return "".
	First(ctx context.Context) (statement string, err error)
	// Lock locks these databases against other demos until release is called or this process ends. If they
	// are locked already, it returns a *cli.ForeignError.
	Lock(ctx context.Context) (release func(), err error)
	// URL returns the URL for --store, without a password.
	URL() string
	// Remains describes the databases that remain after the run.
	Remains() string
	// Sweep removes the files that remain if a removal was killed.
	Sweep() error

	called(service string) string
	// bare opens Order's database without Skald's tables, and creates the database if needed.
	bare(ctx context.Context) (table.Home[TTx], error)
	// foreign names objects of other programs in a service's database. It returns "" if there are none.
	foreign(ctx context.Context, service string) (what string, err error)
	// drop removes a service's database, if it exists.
	drop(ctx context.Context, service string) error
	// clean removes the files after the last database, and describes the files that it cannot remove.
	clean() (stays string, err error)
	close() error
}

// lockedError returns the error for a locked run. Two demos must not share a run: each would treat the
// services of the other as dead.
func lockedError(at string) error {
	return &cli.ForeignError{What: "another demo is running at " + at,
		Remedy: "wait for its end, or choose another --dir or --prefix"}
}

// removed returns the error for a run that was removed while this process waited for its lock.
func removed(at string) error {
	return &cli.ForeignError{What: "the run at " + at + " has just been removed", Remedy: "start again"}
}

// Read returns a *cli.NoneError if a database does not exist.
func (g *playground[TTx]) Read(ctx context.Context) (map[string]table.DB, error) {
	dbs, err := g.Databases.Read(ctx)
	if errors.Is(err, place.ErrNone) {
		err = &cli.NoneError{What: err.Error()}
	}
	return dbs, err
}

// Has returns true if a run created the databases: then one of them has this table. It returns false if there
// are no tables at all, and a *cli.ForeignError if there are only other tables.
func (g *playground[TTx]) Has(ctx context.Context, table string) (bool, error) {
	var found []string
	for _, name := range place.Names() {
		tables, err := g.Present(ctx, name)
		switch {
		case err != nil:
			return false, fmt.Errorf("read %s: %w", g.called(name), err)
		case slices.Contains(tables, table):
			return true, nil
		case len(tables) > 0:
			found = append(found, g.called(name))
		}
	}
	if len(found) == 0 {
		return false, nil
	}
	return false, &cli.ForeignError{
		What:   "there are objects that this demo did not create: " + strings.Join(found, ", "),
		Remedy: "choose another --dir or --prefix, or remove them",
	}
}

// Order returns Order's database without Skald's tables. It creates the database if needed.
func (g *playground[TTx]) Order(ctx context.Context) (*table.Home[TTx], error) {
	if g.order == nil {
		home, err := g.bare(ctx)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", g.called("order"), err)
		}
		g.order = &home
	}
	return g.order, nil
}

// Close closes everything that was opened.
func (g *playground[TTx]) Close() error {
	return errors.Join(g.Databases.Close(), g.close())
}
