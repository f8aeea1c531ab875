package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// tidings are what a command has to tell: in words at once, or, with --json, as one object at its end.
type tidings struct {
	out    io.Writer
	asJSON bool
	all    map[string]any
}

func (t *tidings) flag(c *cobra.Command) {
	c.Flags().BoolVar(&t.asJSON, "json", false, "print one object and nothing else")
}

// say tells value under a name, or the words for it.
func (t *tidings) say(name string, value any, words string) error {
	if !t.asJSON {
		_, err := fmt.Fprintln(t.out, words)
		return err
	}
	if t.all == nil {
		t.all = map[string]any{}
	}
	t.all[name] = value
	return nil
}

// list tells names under a name, or each in a line behind what, or that there are none.
func (t *tidings) list(name, what string, names []string) error {
	if t.asJSON {
		return t.say(name, append([]string{}, names...), "")
	}
	if len(names) == 0 {
		return t.say("", nil, "up to date")
	}
	for _, one := range names {
		if err := t.say("", nil, strings.TrimSpace(what+" "+one)); err != nil {
			return err
		}
	}
	return nil
}

// end prints the object, also of what was done before an error.
func (t *tidings) end(err error) error {
	if len(t.all) == 0 {
		return err
	}
	enc := json.NewEncoder(t.out)
	enc.SetEscapeHTML(false)
	return errors.Join(enc.Encode(t.all), err)
}
