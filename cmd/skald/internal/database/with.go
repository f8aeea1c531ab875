package database

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/given"
	"github.com/skald-go/skald/store"
)

// With opens the store that the flags name, as one that can do what K says, for as long as f takes.
func With[K interface {
	Check(ctx context.Context, as store.Role) error
}](c *cobra.Command, schema string, as store.Role, f func(context.Context, K) error) error {
	db, err := Open(given.From(c, "store", "SKALD_STORE"), schema, "")
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
		return fmt.Errorf("%T cannot do what %q needs", all[0], c.CommandPath())
	}
	if err := k.Check(c.Context(), as); err != nil {
		return err
	}
	return f(c.Context(), k)
}
