// This file is how commands print: words for who looks, one JSON object for a program.

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Tidings are what a command has to tell: in words at once, or, with --json, as one object at its end.
type Tidings struct {
	Out    io.Writer
	asJSON bool
	all    map[string]any
}

// Flag lets the command take --json.
func (t *Tidings) Flag(c *cobra.Command) {
	c.Flags().BoolVar(&t.asJSON, "json", false, "print one object and nothing else")
}

// Say tells value under a name, or the words for it.
func (t *Tidings) Say(name string, value any, words string) error {
	if !t.asJSON {
		_, err := fmt.Fprintln(t.Out, words)
		return err
	}
	if t.all == nil {
		t.all = map[string]any{}
	}
	t.all[name] = value
	return nil
}

// List tells names under a name, or each in a line after what, or that there are none.
func (t *Tidings) List(name, what string, names []string) error {
	if t.asJSON {
		return t.Say(name, append([]string{}, names...), "")
	}
	if len(names) == 0 {
		return t.Say("", nil, "up to date")
	}
	for _, one := range names {
		if err := t.Say("", nil, strings.TrimSpace(what+" "+one)); err != nil {
			return err
		}
	}
	return nil
}

// End prints the object, also of what was done before an error.
func (t *Tidings) End(err error) error {
	if len(t.all) == 0 {
		return err
	}
	enc := json.NewEncoder(t.Out)
	enc.SetEscapeHTML(false)
	return errors.Join(enc.Encode(t.all), err)
}
