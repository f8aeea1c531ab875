package connect

import (
	"os"

	"github.com/spf13/cobra"
)

// From returns the value of a flag, or of the environment variable if the flag was not given.
func From(c *cobra.Command, flag, env string) string {
	f := c.Flags().Lookup(flag)
	if v := os.Getenv(env); !f.Changed && v != "" {
		return v
	}
	return f.Value.String()
}
