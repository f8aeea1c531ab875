package pgstore

import (
	"context"
	"fmt"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
	"github.com/skald-go/skald/store/pgstore/internal/rights"
)

// Check tells, before first use, whether the tables are there, with the rights that as needs. The rights come
// first: without them the version cannot be read.
func (c *core) Check(ctx context.Context, as store.Role) error {
	need, err := rights.Of(as)
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
	if err := encodings(server, client, database); err != nil {
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
	version, err := reached(applied)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if version < oldest || builds > newest() {
		return c.pg.SchemaError(version)
	}
	if as != store.App {
		return nil
	}
	return c.pg.Short(ctx, "check", c.recovery.Behind()...)
}

// encodings: what a client of another encoding sends is stored as other letters than it meant, and nothing
// would tell.
func encodings(server, client, database string) error {
	switch {
	case server != everyText:
		return &store.EncodingError{Where: "the database " + database, Encoding: server,
			Remedy: "make another one: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"}
	case client != everyText:
		return badClient(client)
	}
	return nil
}

const everyText = "UTF8"

func badClient(encoding string) error {
	return &store.EncodingError{Where: "the connection", Encoding: encoding,
		Remedy: "add client_encoding=UTF8 to the URL, or ALTER ROLE … RESET client_encoding"}
}

// rolesCommand prints the rights of a role.
func (c *core) rolesCommand(as store.Role) string {
	return "skald roles " + string(as) + " --schema " + pgrun.ShellWord(c.pg.Schema)
}
