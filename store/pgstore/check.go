package pgstore

import (
	"context"
	"errors"

	"github.com/skald-go/skald/store"
)

// Check tells, before first use, whether tables and rights are there.
func (c *core) Check(ctx context.Context) error {
	var version, builds int
	if err := c.short(ctx, "check", c.call("Version").into(&version, &builds)); err != nil {
		return c.asMissing(err)
	}
	if version < oldest || builds > newest() {
		return c.schemaError(version)
	}
	var what, remedy string
	if err := c.short(ctx, "check", c.call("MissingRight", c.schema).into(&what, &remedy)); err != nil {
		return err
	}
	if what != "" {
		return &store.RightError{What: what, Remedy: remedy, Err: errors.New("permission denied")}
	}
	return nil
}

// asMissing: where there are no tables at all, version 0 says so.
func (c *core) asMissing(err error) error {
	var right *store.RightError
	if errors.As(err, &right) {
		right.What, right.Remedy = "SELECT on skald_migration", "GRANT USAGE ON SCHEMA and SELECT ON "+c.prefix+"skald_migration"
	}
	return err
}
