package query

import (
	"context"
	"fmt"
	"strconv"

	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/store"
)

// Database identifies the database by values that stay the same after a restart, a fail-over and a restore of
// a physical backup.
func (c *Consumers) Database(ctx context.Context) (store.Database, error) {
	if c.pg.Err != nil {
		return store.Database{}, c.pg.Err
	}
	var system, name string
	var oid int64
	err := c.pg.Short(ctx, "identify the database", c.pg.Call("Database").Into(&system, &oid, &name))
	if err != nil {
		return store.Database{}, err
	}
	title := fmt.Sprintf("database %q, schema %q, of the PostgreSQL system %s", name, c.pg.Schema, system)
	id := fingerprint.Database(system, strconv.FormatInt(oid, 10), c.pg.Schema)
	return store.Database{ID: id, Name: title}, nil
}
