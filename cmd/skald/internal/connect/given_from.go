package connect

import (
	"os"

	"github.com/spf13/cobra"
)

// From is the flag, if it was given, else the environment's word for it.
func From(c *cobra.Command, flag, env string) string {
	f := c.Flags().Lookup(flag)
	if v := os.Getenv(env); !f.Changed && v != "" {
		return v
	}
	return f.Value.String()
}
