//go:build !nodemo

package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/cmd/skald/internal/demo"
)

const removeAbout = `Removes everything that a demo created: its folder or schemas, its topics and its groups.

It first checks that all of them belong to the demo. If one does not, it removes nothing and exits with
code 5. If the process is killed, run the same command again. Without a demo it does nothing.`

func removeCommand(out, errs io.Writer) *cobra.Command {
	var o demo.Options
	var dir string
	var sure bool
	t := &cli.Output{Out: out}
	c := &cobra.Command{
		Use: "remove", Short: "Remove the databases, topics and groups of a demo",
		Long: removeAbout, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := whichDemo(c, &o, dir); err != nil {
				return err
			}
			warnIgnored(c, errs)
			ask := func(what string) error {
				return connect.Yes(c.Context(), errs, what+".\nRemove all of this?",
					"demo remove: "+
						what+": to remove all of this, add --yes")
			}
			if sure {
				ask = func(string) error { return nil }
			}
			said, err := demo.Remove(c.Context(), o, ask)
			if err == nil {
				err = t.Say("said", said, said)
			}
			return t.End(err)
		},
	}
	t.Flag(c)
	f := c.Flags()
	f.StringVar(&o.Store, "store", "", "`URL` of the databases: sqlite:FOLDER, postgres://… or @FILE")
	f.StringVar(&o.Broker, "broker", "mem:",
		"`URL` of the demo's broker: mem:, kafka://…, nats://…, amqp://… or @FILE")
	f.StringVar(&dir, "dir", "", "`DIR` of SQLite files, short for --store sqlite:DIR")
	f.StringVar(&o.Prefix, "prefix", "skald_demo", "`P` of the names of schemas (P_order, …), topics (P.orders, …) and groups")
	f.BoolVar(&sure, "yes", false, "do not ask for confirmation")
	return c
}
