package connect

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
)

// once is the value of a flag that may be given once. A second value is refused, because the last one would
// silently replace the first.
type once struct {
	pflag.Value
	name  string
	given bool
}

// Strict refuses a second value of each flag of c and its subcommands, unless the flag takes several. A
// group without a subcommand prints its commands.
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
		c.FParseErrWhitelist.UnknownFlags = true // noVerb reports the unknown command first
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
