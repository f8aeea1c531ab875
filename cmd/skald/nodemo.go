//go:build nodemo

package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/exit"
)

// demoCommand says where the demo is: this build leaves it out, with the shop and the test kit.
func demoCommand(io.Writer, io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "demo", Short: "Not in this build: it says what to type", DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			what := "this build has no demo: type: go run github.com/skald-go/skald/cmd/skald@" + thisBuild().Version + " demo"
			if thisBuild().unreleased() {
				what = "this build has no demo: in a checkout of Skald type: go run ./cmd/skald demo"
			}
			return &exit.UsageError{What: what}
		},
	}
}

// unreleased tells whether the Go tool cannot fetch this version: it is of a checkout.
func (b build) unreleased() bool {
	return !strings.HasPrefix(b.Version, "v") || strings.Contains(b.Version, "+dirty")
}
