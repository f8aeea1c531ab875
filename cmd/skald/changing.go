package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/exit"
	"github.com/skald-go/skald/operate"
)

// changing is what each command is given that changes something: where, how, by whom and why.
type changing struct {
	schema           string
	asJSON, dry, yes bool
	reason, by       string
}

// changeFlags are those of whatever changes something.
func (w *changing) changeFlags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&w.dry, "dry-run", false, "say what would be done, and do nothing")
	f.BoolVar(&w.yes, "yes", false, "do not ask")
	f.StringVar(&w.reason, "reason", "", "why; it is kept in skald_audit")
	f.StringVar(&w.by, "by", whoami(), "who; the same")
}

// order is who does it and why. Before many messages are changed it asks, unless --yes was given.
func (w *changing) order(errs io.Writer, verb string) operate.Order {
	o := operate.Order{Author: w.by, Reason: w.reason, DryRun: w.dry}
	if !w.yes {
		o.Confirm = func(ctx context.Context, n int) error {
			return askFirst(ctx, errs, fmt.Sprintf("%s %d messages?", verb, n),
				fmt.Sprintf("%s would change %d messages: if that is meant, add --yes", verb, n))
		}
	}
	return o
}

// reasoned wants a reason, unless nothing is to be changed.
func (w *changing) reasoned(verb string) error {
	if strings.TrimSpace(w.reason) == "" && !w.dry {
		return &exit.UsageError{What: verb + " wants a --reason: it is kept in skald_audit"}
	}
	return nil
}
