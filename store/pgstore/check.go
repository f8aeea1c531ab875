package pgstore

import (
	"context"
	"fmt"

	"github.com/skald-go/skald/store"
)

// Check tells, before first use, whether the tables are there, with the rights that as needs. The rights come first:
// without them the version cannot be read.
func (c *core) Check(ctx context.Context, as store.Role) error {
	need, err := needsOf(as)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	var what, remedy string
	missing := c.call("MissingRight", c.schema, need.rights, need.columns, need.kinds, need.names)
	if err := c.short(ctx, "check", missing.into(&what, &remedy)); err != nil {
		return err
	}
	if what != "" {
		return &store.RightError{What: what, Remedy: remedy, Err: fmt.Errorf("permission denied (all that it needs: %s)", c.rolesCommand(as))}
	}
	var version, builds int
	if err := c.short(ctx, "check", c.call("Version").into(&version, &builds)); err != nil {
		return err
	}
	if version < oldest || builds > newest() {
		return c.schemaError(version)
	}
	if as != store.App {
		return nil
	}
	c.stale.Store(true)
	return c.reread(ctx)
}

// rolesCommand prints the rights of a role.
func (c *core) rolesCommand(as store.Role) string {
	return "skald roles " + string(as) + " --schema " + shellWord(c.schema)
}
