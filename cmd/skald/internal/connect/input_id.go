package connect

import (
	"fmt"

	"github.com/spf13/cobra"
)

// ByID adds an optional argument to a command: the ID of a message.
func ByID(c *cobra.Command, id *string) {
	c.Use += " [ID]"
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("give one ID, not %d", len(args))
		}
		if len(args) == 1 {
			*id = args[0]
		}
		return nil
	}
}
