package verbs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/store"
)

// With opens the store of the flags for the duration of f. It checks the version of the tables and the
// rights of the role.
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

// unchecked is With without a role. A missing right becomes an error of the statement that needs it.
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
