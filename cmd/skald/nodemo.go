//go:build nodemo

package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
)

// demoCommand replaces the demo in a build with the tag nodemo, which leaves out the demo and the shop. It
// prints how to run the demo.
func demoCommand(io.Writer, io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "demo", Short: "Not included in this build", DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			what := "this build has no demo: run: go run github.com/skald-go/skald/cmd/skald@" +
				cli.This().Version + " demo"
			if cli.This().Unreleased() {
				what = "this build has no demo: in a checkout of Skald run: go run ./cmd/skald demo"
			}
			return &cli.UsageError{What: what}
		},
	}
}
