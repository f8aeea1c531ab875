package connect

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
)

// noVerb prints the commands of a group if the user gave only the name of the group.
func noVerb(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownVerb(c, args[0])
	}
	c.SetOut(c.ErrOrStderr())
	return errors.Join(&cli.UsageError{What: "which command of " + c.Name() + "?"}, cli.ErrTold, c.Usage())
}

func unknownVerb(c *cobra.Command, verb string) error {
	c.SuggestionsMinimumDistance = 2 // cobra sets this default only for the root command
	text := fmt.Sprintf("unknown command %q for %q", verb, c.CommandPath())
	if like := c.SuggestionsFor(verb); len(like) > 0 {
		return &cli.UsageError{What: text + ": did you mean " + strings.Join(like, " or ") + "?"}
	}
	var names []string
	for _, below := range c.Commands() {
		names = append(names, below.Name())
	}
	return &cli.UsageError{What: text + ": it has " + strings.Join(names, ", ")}
}
