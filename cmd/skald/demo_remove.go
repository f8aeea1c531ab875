//go:build !nodemo

package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/cmd/skald/internal/demo"
)

const removeAbout = `Takes away what a demo made: the folder of its databases, or their schemas, and its topics and groups.

It looks first whether all of it is the demo's own, and touches nothing where something is not (exit code 5). Killed at
any moment and started again, it ends what it began; where there is no demo it does nothing.`

func removeCommand(out, errs io.Writer) *cobra.Command {
	var o demo.Options
	var dir string
	var sure bool
	t := &cli.Tidings{Out: out}
	c := &cobra.Command{
		Use: "remove", Short: "Take away what a demo made", Long: removeAbout, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := whichDemo(c, &o, dir); err != nil {
				return err
			}
			leftAlone(c, errs)
			ask := func(what string) error {
				return connect.Yes(c.Context(), errs, what+".\nShall all of this be removed?",
					"demo remove: "+
						what+": if all of this shall go, add --yes")
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
	f.StringVar(&o.Store, "store", "", "sqlite:FOLDER, postgres://… or @FILE")
	f.StringVar(&o.Broker, "broker", "mem:",
		"as the demo had it: mem:, kafka://…, nats://…, amqp://… or @FILE")
	f.StringVar(&dir, "dir", "", "stands for --store sqlite:DIR")
	f.StringVar(&o.Prefix, "prefix", "skald_demo", "of schemas (P_order, …), topics (P.orders, …) and groups")
	f.BoolVar(&sure, "yes", false, "do not ask")
	return c
}
