package connect

import (
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
)

// DataFlag is the flag of a payload, the same in each command.
func DataFlag(c *cobra.Command, data *string, what string) {
	c.Flags().StringVar(data, "data", "", what+"; @FILE: what is in that file, @-: standard input")
}

// Payload is the payload that such a flag gives.
func Payload(data string, in io.Reader) ([]byte, error) {
	if name, file := strings.CutPrefix(data, "@"); file {
		return contents(name, in)
	}
	return []byte(data), nil
}

// contents is what is in a file; - is standard input.
func contents(name string, in io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(in)
	}
	b, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		err = &cli.NoneError{What: "there is no file " + name}
	}
	return b, err
}
