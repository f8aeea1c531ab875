package connect

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
)

// A filter is a flag that says what is meant. Given, but empty, it is refused: without it all is meant, and a
// variable that is not set must not come to that.
type filter string

// Filter adds such a flag.
func Filter(f *pflag.FlagSet, p *string, name, usage string) { f.Var((*filter)(p), name, usage) }

func (w *filter) Set(text string) error {
	if text == "" {
		return errors.New("it is empty: was a variable not set? Give a value, or leave the flag out")
	}
	*w = filter(text)
	return nil
}

func (w *filter) String() string { return string(*w) }

// Type is what the help calls it.
func (w *filter) Type() string { return "string" }

// Limit refuses a --limit below 0.
func Limit(n int) error {
	if n < 0 {
		return &cli.UsageError{What: "--limit is how many at most: not below 0"}
	}
	return nil
}

// NoneEmpty refuses an argument that is empty: a name or a key that was left out would mean all.
func NoneEmpty(c *cobra.Command, args []string) error {
	if !slices.Contains(args, "") {
		return nil
	}
	text := "an argument is empty (was a variable not set?)"
	switch all := c.Flags().Lookup("all"); {
	case all != nil:
		text += "; to mean all, leave it out, and give --all or flags that choose"
	case strings.Contains(c.Use, "["):
		text += "; to mean all, leave it out"
	}
	return &cli.UsageError{What: fmt.Sprintf("%s: %s", text, c.UseLine())}
}
