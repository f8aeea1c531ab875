// This file is where the databases of a run are: files in a folder, or schemas of a PostgreSQL. It tells
// a run's databases from others, keeps a second demo away from them, and takes them away.

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

// A playground is the databases of a run, of one kind.
type playground[TTx any] struct {
	*place.Databases[TTx]
	groundKind[TTx]
	order *table.Home[TTx] // Order's database, without Skald; nil until it is needed
}

// groundKind is what differs between the kinds.
type groundKind[TTx any] interface {
	// Present are the names of the tables in a service's database; nil, if that is not there.
	Present(ctx context.Context, service string) ([]string, error)
	// First is the statement that goes before the one that makes the first table in Order's database, in its
	// transaction; "": none.
	First(ctx context.Context) (statement string, err error)
	// Lock keeps other demos away from these databases until it is released, or this process ends: else a
	// *exit.ForeignError.
	Lock(ctx context.Context) (release func(), err error)
	// URL is what to say for --store, without a password.
	URL() string
	// Remains says what the run leaves behind.
	Remains() string
	// Sweep takes away what a removal leaves that was killed behind the last database.
	Sweep() error

	called(service string) string
	// bare opens Order's database without Skald's tables. It is made where it is not there.
	bare(ctx context.Context) (table.Home[TTx], error)
	// foreign is what is in a service's database and not the demo's; "": nothing.
	foreign(ctx context.Context, service string) (what string, err error)
	// drop takes a service's database away, if it is there.
	drop(ctx context.Context, service string) error
	// clean takes away what is left behind the last database, and says what it leaves.
	clean() (stays string, err error)
	close() error
}

// other: two at once would each take the other's services for dead ones.
func other(at string) error {
	return &cli.ForeignError{What: "another demo is at work at " + at,
		Remedy: "wait for its end, or choose another --dir or --prefix"}
}

// removed: who waited for the lock finds nothing left.
func removed(at string) error {
	return &cli.ForeignError{What: "the run at " + at + " has just been removed", Remedy: "start again"}
}

// Read is an *exit.NoneError if a database is not there.
func (g *playground[TTx]) Read(ctx context.Context) (map[string]table.DB, error) {
	dbs, err := g.Databases.Read(ctx)
	if errors.Is(err, place.ErrNone) {
		err = &cli.NoneError{What: err.Error()}
	}
	return dbs, err
}

// Has tells whether the databases are those of a run, by a table that it has made; false, if there is
// nothing yet. Else a *exit.ForeignError.
func (g *playground[TTx]) Has(ctx context.Context, table string) (bool, error) {
	var found []string
	for _, name := range place.Names() {
		tables, err := g.Present(ctx, name)
		switch {
		case err != nil:
			return false, fmt.Errorf("look at %s: %w", g.called(name), err)
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
		What:   "there are objects that this demo did not make: " + strings.Join(found, ", "),
		Remedy: "choose another --dir or --prefix, or remove them",
	}
}

// Order is Order's database, without Skald's tables. It is made where it is not there.
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
