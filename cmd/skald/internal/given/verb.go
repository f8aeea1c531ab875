package given

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/exit"
)

// NoVerb runs where only the name of a group of commands was given: it prints which there are.
func NoVerb(c *cobra.Command, _ []string) error {
	c.SetOut(c.ErrOrStderr())
	return errors.Join(&exit.UsageError{What: "which command of " + c.Name() + "?"}, exit.ErrTold, c.Usage())
}
