package pgstore

import (
	"context"
	"fmt"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/admin"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Check tells, before first use, whether the tables are there, with the rights that as needs. The rights come
// first: without them the version cannot be read.
func (c *core) Check(ctx context.Context, as store.Role) error {
	need, err := admin.Of(as)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	var what, remedy, server, client, database string
	var there bool
	look := c.pg.Call("Encoding", c.pg.Schema).Into(&server, &client, &database, &there)
	missing := c.pg.Call("MissingRight", c.pg.Schema, need.Rights, need.Columns, need.Kinds, need.Names)
	if err := c.pg.Short(ctx, "check", look, missing.Into(&what, &remedy)); err != nil {
		return err
	}
	if err := sqlexec.CheckEncoding(server, client, database); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if what != "" {
		return &store.RightError{What: what, Remedy: remedy,
			Err: fmt.Errorf("permission denied (all that it needs: %s)", c.rolesCommand(as))}
	}
	var applied string
	var builds int
	if err := c.pg.Short(ctx, "check", c.pg.Call("Version").Into(&applied, &builds)); err != nil {
		return err
	}
	version, err := admin.Reached(Migrations(), applied)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if version < oldest || builds > c.pg.Newest {
		return c.pg.SchemaError(version)
	}
	if as != store.App {
		return nil
	}
	return c.pg.Short(ctx, "check", c.recovery.Behind()...)
}

// rolesCommand prints the rights of a role.
func (c *core) rolesCommand(as store.Role) string {
	return "skald roles " + string(as) + " --schema " + sqlexec.ShellWord(c.pg.Schema)
}
