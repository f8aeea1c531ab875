// This file prints the output of commands: text for people, or one JSON object for programs.

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Output prints text immediately. With --json it collects the values, and prints them as one object at the
// end.
type Output struct {
	Out    io.Writer
	asJSON bool
	all    map[string]any
}

// Flag adds --json to the command.
func (t *Output) Flag(c *cobra.Command) {
	c.Flags().BoolVar(&t.asJSON, "json", false, "print one JSON object")
}

// Say prints the words. With --json it adds the value under this name instead.
func (t *Output) Say(name string, value any, words string) error {
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

// List prints a line with the heading and a name for each name. Without names it prints "up to date". With
// --json it adds the names to the object instead.
func (t *Output) List(name, heading string, names []string) error {
	if t.asJSON {
		return t.Say(name, append([]string{}, names...), "")
	}
	if len(names) == 0 {
		return t.Say("", nil, "up to date")
	}
	for _, one := range names {
		if err := t.Say("", nil, strings.TrimSpace(heading+" "+one)); err != nil {
			return err
		}
	}
	return nil
}

// End prints the collected object, even if err is not nil. It returns err.
func (t *Output) End(err error) error {
	if len(t.all) == 0 {
		return err
	}
	enc := json.NewEncoder(t.Out)
	enc.SetEscapeHTML(false)
	return errors.Join(enc.Encode(t.all), err)
}
