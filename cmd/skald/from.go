package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// from is the flag, if it was given, else the environment's word for it.
func from(c *cobra.Command, flag, env string) string {
	f := c.Flags().Lookup(flag)
	if v := os.Getenv(env); !f.Changed && v != "" {
		return v
	}
	return f.Value.String()
}

// storeFlags are those of a command that asks one store.
func storeFlags(c *cobra.Command, schema *string, asJSON *bool) {
	c.Flags().String("store", "", "sqlite:FILE or postgres://…; SKALD_STORE stands for it")
	c.Flags().StringVar(schema, "schema", "", "where the tables are; PostgreSQL only (default: public)")
	c.Flags().BoolVar(asJSON, "json", false, "print one object and nothing else")
}

// same is how another command, typed in the same shell, finds the same database.
func same(c *cobra.Command, schema string) string {
	at := ""
	if store := from(c, "store", "SKALD_STORE"); strings.HasPrefix(store, "sqlite:") {
		at = sqliteStore(store)
	} else if c.Flags().Changed("store") {
		at = "--store " + typedStore(givenStore(c), store)
	}
	if schema != "" {
		at += " --schema '" + strings.ReplaceAll(schema, "'", `'\''`) + "'"
	}
	return strings.TrimSpace(at)
}

// sqliteStore is the flag for a file.
func sqliteStore(at string) string {
	return "--store '" + strings.ReplaceAll(at, "'", `'\''`) + "'"
}
