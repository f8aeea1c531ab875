package connect

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/internal/shortlog"
)

// filter is the value of a flag that selects. It refuses an empty value, for example from a shell variable
// that is not set, because an empty filter would select everything.
type filter string

// Filter adds a filter flag.
func Filter(f *pflag.FlagSet, p *string, name, usage string) { f.Var((*filter)(p), name, usage) }

func (w *filter) Set(text string) error {
	if text == "" {
		return errors.New("it is empty: check the shell variable, and give a value or omit the flag")
	}
	*w = filter(text)
	return nil
}

func (w *filter) String() string { return string(*w) }

// Type returns the name of the type in the help.
func (w *filter) Type() string { return "string" }

// Limit returns a usage error for a negative --limit.
func Limit(n int) error {
	if n < 0 {
		return &cli.UsageError{What: "--limit cannot be negative"}
	}
	return nil
}

// PrintableNames returns a usage error if a flag that names a consumer, a topic or a person has a control
// character.
func PrintableNames(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		names := []string{f.Value.String()}
		if many, is := f.Value.(pflag.SliceValue); is {
			names = many.GetSlice()
		}
		if !slices.Contains([]string{"by", "consumer", "group", "topic"}, f.Name) {
			return
		}
		for _, name := range names {
			if bad := shortlog.CheckName("--"+f.Name, name); bad != nil && err == nil {
				err = &cli.UsageError{What: bad.Error()}
			}
		}
	})
	return err
}

// NoneEmpty returns a usage error for an empty argument, because an omitted name or key selects everything.
func NoneEmpty(c *cobra.Command, args []string) error {
	if !slices.Contains(args, "") {
		return nil
	}
	text := "an argument is empty (check the shell variable)"
	switch all := c.Flags().Lookup("all"); {
	case all != nil:
		text += "; to select all, omit the argument, and give --all or a filter"
	case strings.Contains(c.Use, "["):
		text += "; to select all, omit the argument"
	}
	return &cli.UsageError{What: fmt.Sprintf("%s: %s", text, c.UseLine())}
}
