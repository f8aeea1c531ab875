//go:build nodemo

package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
)

// demoCommand says where the demo is: this build leaves it out, with the shop and the test kit.
func demoCommand(io.Writer, io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "demo", Short: "Not in this build: it says what to type", DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			what := "this build has no demo: type: go run github.com/skald-go/skald/cmd/skald@" +
				cli.This().Version + " demo"
			if cli.This().Unreleased() {
				what = "this build has no demo: in a checkout of Skald type: go run ./cmd/skald demo"
			}
			return &cli.UsageError{What: what}
		},
	}
}
