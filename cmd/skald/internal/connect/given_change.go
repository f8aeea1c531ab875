package connect

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/operate"
)

// Change is what each command is given that changes something: where, how, by whom and why.
type Change struct {
	Schema         string
	JSON, Dry, Yes bool
	Reason, By     string
}

// ChangeFlags are those of whatever changes something.
func (w *Change) ChangeFlags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&w.Dry, "dry-run", false, "say what would be done, and do nothing")
	f.BoolVar(&w.Yes, "yes", false, "do not ask")
	f.StringVar(&w.Reason, "reason", "", "why; it is kept in skald_audit")
	f.StringVar(&w.By, "by", Whoami(), "who does it, for the audit")
}

// Order is who does it and why. Before many messages are changed it asks, unless --yes was given.
func (w *Change) Order(errs io.Writer, verb string) operate.Order {
	o := operate.Order{Author: w.By, Reason: w.Reason, DryRun: w.Dry}
	if !w.Yes {
		o.Confirm = func(ctx context.Context, n int) error {
			return Yes(ctx, errs, fmt.Sprintf("%s %s?", verb, cli.Count(n, "message")),
				fmt.Sprintf("%s would change %s: if that is meant, add --yes", verb, cli.Count(n, "message")))
		}
	}
	return o
}

// Reasoned wants a reason, unless nothing is to be changed.
func (w *Change) Reasoned(verb string) error {
	if strings.TrimSpace(w.Reason) == "" && !w.Dry {
		return &cli.UsageError{What: verb + " wants a --reason: it is kept in skald_audit"}
	}
	return nil
}
