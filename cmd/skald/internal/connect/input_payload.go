package connect

import (
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
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

// contents reads a file, or standard input if the name is -.
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
