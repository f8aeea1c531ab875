package verbs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/store"
)

// With calls f with the store that the flags select, and closes the store afterwards. Before that, it checks
// the version of the tables and the rights of the role.
func With[K interface {
	Check(ctx context.Context, as store.Role) error
}](c *cobra.Command, schema string, as store.Role, f func(context.Context, K) error) error {
	return unchecked(c, schema, func(ctx context.Context, k K) error {
		if err := k.Check(ctx, as); err != nil {
			return err
		}
		return f(ctx, k)
	})
}

// unchecked is like With, but it checks no rights. If a right is missing, the statement that needs the right
// fails.
func unchecked[K any](c *cobra.Command, schema string, f func(context.Context, K) error) error {
	db, err := Open(connect.From(c, "store", "SKALD_STORE"), schema, "")
	if err != nil {
		return err
	}
	all, end, err := db.Stores(c.Context(), Rooms{})
	if err != nil {
		return err
	}
	defer end()
	k, ok := all[0].(K)
	if !ok {
		return fmt.Errorf("%T does not support %q", all[0], c.CommandPath())
	}
	return f(c.Context(), k)
}
