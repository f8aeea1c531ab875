package connect

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/internal/complete"
)

// DataFlag adds the flag --data for a payload.
func DataFlag(c *cobra.Command, data *string, what string) {
	c.Flags().StringVar(data, "data", "", what+"; @FILE reads a file, @- standard input")
}

// Payload returns the payload for the value of --data. The argument stdin is standard input.
func Payload(data string, stdin io.Reader) ([]byte, error) {
	if name, file := strings.CutPrefix(data, "@"); file {
		return contents(name, stdin)
	}
	return []byte(data), nil
}

// contents reads a file, or standard input if the name is -. A payload has at most complete.MaxData bytes.
func contents(name string, in io.Reader) ([]byte, error) {
	if name == "-" {
		return cli.ReadAtMost(in, "standard input", complete.MaxData)
	}
	return cli.ReadFile(name, complete.MaxData)
}
