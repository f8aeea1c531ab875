package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
)

func versionCommand(out io.Writer) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "Print the version of this build", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := cli.This()
			if asJSON {
				return cli.JSON(out).Encode(b)
			}
			_, err := fmt.Fprintln(out, b)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}
