package connect

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
)

// once is the value of a flag that may be given only once. It refuses a second value, because pflag would
// silently replace the first value by the second.
type once struct {
	pflag.Value
	name  string
	given bool
}

// Strict makes c and its subcommands refuse a second value of each flag, unless the flag takes several
// values. It also makes a group of commands print its commands if no command was given.
func Strict(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if _, many := f.Value.(pflag.SliceValue); !many {
			f.Value = &once{Value: f.Value, name: f.Name}
			if f.DefValue == "0s" {
				f.DefValue = "0" // cobra's help leaves out the default "0"
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
	if o.given { // an error of pflag would print the value, which may have a password
		return &cli.UsageError{What: "--" + o.name + " is given twice, and takes one value"}
	}
	o.given = true
	return o.Value.Set(text)
}
