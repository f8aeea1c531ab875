//go:build nodemo

package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/build"
	"github.com/skald-go/skald/cmd/skald/internal/exit"
)

// demoCommand says where the demo is: this build leaves it out, with the shop and the test kit.
func demoCommand(io.Writer, io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "demo", Short: "Not in this build: it says what to type", DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			what := "this build has no demo: type: go run github.com/skald-go/skald/cmd/skald@" +
				build.This().Version + " demo"
			if build.This().Unreleased() {
				what = "this build has no demo: in a checkout of Skald type: go run ./cmd/skald demo"
			}
			return &exit.UsageError{What: what}
		},
	}
}
