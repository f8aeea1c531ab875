package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/admin"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Check implements store.Common. It checks the rights before the version of the tables, because reading the
// version needs rights.
func (c *core) Check(ctx context.Context, as store.Role) error {
	need, err := admin.Of(as)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	var what, remedy, server, client, database string
	var there bool
	look := c.pg.Call("Encoding", c.pg.Schema).Into(&server, &client, &database, &there)
	missing := c.pg.Call("MissingRight", c.pg.Schema, need.Rights, need.Columns, need.Kinds, need.Names)
	missing = missing.Into(&what, &remedy)
	read := missing.Scan
	missing.Scan = func(row sqlexec.Scanner) error {
		err := read(row)
		if err == nil && what != "" {
			err = &store.RightError{What: what, Remedy: remedy,
				Err: fmt.Errorf("permission denied (all rights: %s)", c.rolesCommand(as))}
		}
		return err
	}
	if err := c.pg.Short(ctx, "check", look, missing); err != nil {
		if right := (*store.RightError)(nil); what != "" && errors.As(err, &right) {
			return right
		}
		return err
	}
	if err := sqlexec.CheckEncoding(server, client, database); err != nil {
		return fmt.Errorf("check: %w", err)
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
	if as == store.Relay {
		var here string
		return c.pg.Short(ctx, "check", c.pg.Call("Here").Into(&here))
	}
	if as != store.App {
		return nil
	}
	return c.pg.Short(ctx, "check", c.recovery.Behind()...)
}

// rolesCommand returns the shell command that prints all rights of a role. An error recommends it.
func (c *core) rolesCommand(as store.Role) string {
	return "skald roles " + string(as) + " --schema " + sqlexec.ShellWord(c.pg.Schema)
}
