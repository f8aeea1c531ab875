package connect

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
)

// A once is the value of a flag that takes one: given again it is refused, else the last one would count and
// nobody would hear of the others.
type once struct {
	pflag.Value
	name  string
	given bool
}

// Strict has c, and each command below it, refuse a flag that is given twice, but for those that take many;
// and a group of commands ask which of them is meant.
func Strict(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if _, many := f.Value.(pflag.SliceValue); !many {
			f.Value = &once{Value: f.Value, name: f.Name}
			if f.DefValue == "0s" {
				f.DefValue = "0" // which the help leaves out for any type
			}
		}
	})
	if c.HasSubCommands() && !c.Runnable() {
		c.RunE = noVerb
		c.FParseErrWhitelist.UnknownFlags = true // they are of a command that there is not: say which
	}
	for _, below := range c.Commands() {
		Strict(below)
	}
}

func (o *once) Set(text string) error {
	if o.given { // pflag would print the value, and in it a password
		return &cli.UsageError{What: "--" + o.name + " is given twice, and takes one value"}
	}
	o.given = true
	return o.Value.Set(text)
}
