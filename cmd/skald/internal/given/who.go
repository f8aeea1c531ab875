package given

import (
	"fmt"
	"os"
	"os/user"

	"github.com/spf13/cobra"
)

// Whoami is the user and the machine: who does what is noted, unless --by says it.
func Whoami() string {
	host, _ := os.Hostname() // or none
	if u, err := user.Current(); err == nil {
		return u.Username + "@" + host
	}
	return "@" + host
}

// ByID lets a command take the id of a message behind its name.
func ByID(c *cobra.Command, id *string) {
	c.Use += " [ID]"
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("one ID, not %d", len(args))
		}
		if len(args) == 1 {
			*id = args[0]
		}
		return nil
	}
}
