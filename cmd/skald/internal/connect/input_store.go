package connect

import (
	"strings"

	"github.com/spf13/cobra"
)

// StoreFlags adds the flags of a command that reads one store.
func StoreFlags(c *cobra.Command, schema *string, asJSON *bool) {
	storeFlags(c, schema)
	c.Flags().BoolVar(asJSON, "json", false, "print one JSON object")
}

// ListFlags adds the flags of a command that prints the rows of one store, one per line.
func ListFlags(c *cobra.Command, schema *string, asJSON *bool) {
	storeFlags(c, schema)
	c.Flags().BoolVar(asJSON, "json", false, "print one JSON object per line")
}

func storeFlags(c *cobra.Command, schema *string) {
	c.Flags().String("store", "", "`URL` of the database: sqlite:FILE or postgres://… (default: SKALD_STORE)")
	c.Flags().StringVar(schema, "schema", "", "PostgreSQL `SCHEMA` of the tables (default: public)")
}

// Same returns the flags --store and --schema for another command in the same shell that uses the same
// database.
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

// SQLite returns the --store flag for a file.
func SQLite(at string) string {
	return "--store '" + strings.ReplaceAll(at, "'", `'\''`) + "'"
}
