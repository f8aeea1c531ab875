package connect

import (
	"strings"

	"github.com/spf13/cobra"
)

// StoreFlags are those of a command that asks one store.
func StoreFlags(c *cobra.Command, schema *string, asJSON *bool) {
	storeFlags(c, schema)
	c.Flags().BoolVar(asJSON, "json", false, "print one object and nothing else")
}

// ListFlags are those of a command that prints what one store has, line by line.
func ListFlags(c *cobra.Command, schema *string, asJSON *bool) {
	storeFlags(c, schema)
	c.Flags().BoolVar(asJSON, "json", false, "print one object on each line and nothing else")
}

func storeFlags(c *cobra.Command, schema *string) {
	c.Flags().String("store", "", "sqlite:FILE or postgres://…; SKALD_STORE stands for it")
	c.Flags().StringVar(schema, "schema", "", "where the tables are; PostgreSQL only (default: public)")
}

// Same is how another command, typed in the same shell, finds the same database.
func Same(c *cobra.Command, schema string) string {
	at := ""
	if store := From(c, "store", "SKALD_STORE"); strings.HasPrefix(store, "sqlite:") {
		at = SQLite(store)
	} else if c.Flags().Changed("store") {
		at = "--store " + Typed(Store(c), store)
	}
	if schema != "" {
		at += " --schema '" + strings.ReplaceAll(schema, "'", `'\''`) + "'"
	}
	return strings.TrimSpace(at)
}

// SQLite is the flag for a file.
func SQLite(at string) string {
	return "--store '" + strings.ReplaceAll(at, "'", `'\''`) + "'"
}
