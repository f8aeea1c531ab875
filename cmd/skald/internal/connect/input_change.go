package connect

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/operate"
)

// Change holds the flags of a command that changes data.
type Change struct {
	Schema         string
	JSON, Dry, Yes bool
	Reason, By     string
}

// ChangeFlags adds the flags of a command that changes data.
func (w *Change) ChangeFlags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&w.Dry, "dry-run", false, "print what would change, and change nothing")
	f.BoolVar(&w.Yes, "yes", false, "do not ask for confirmation")
	AuditFlags(f, &w.Reason, &w.By)
}

// AuditFlags adds the flags for the reason and the author of a change.
func AuditFlags(f *pflag.FlagSet, reason, by *string) {
	f.StringVar(reason, "reason", "", "`TEXT` for skald_audit; required for a change")
	f.StringVar(by, "by", Whoami(), "`AUTHOR` for skald_audit (default: USER@HOST)")
	f.Lookup("by").DefValue = "" // the same help on each machine
}

// Order returns the order with its author and reason. It asks for confirmation before many messages change,
// unless --yes was given.
func (w *Change) Order(errs io.Writer, verb string) operate.Order {
	o := operate.Order{Author: w.By, Reason: w.Reason, DryRun: w.Dry}
	if !w.Yes {
		o.Confirm = func(ctx context.Context, n int) error {
			return Yes(ctx, errs, fmt.Sprintf("%s %s?", verb, cli.Count(n, "message")),
				fmt.Sprintf("%s would change %s: to confirm, add --yes", verb, cli.Count(n, "message")))
		}
	}
	return o
}

// Reasoned returns a usage error without a reason, unless this is a dry run.
func (w *Change) Reasoned(verb string) error {
	if strings.TrimSpace(w.Reason) == "" && !w.Dry {
		return &cli.UsageError{What: verb + " needs a --reason: it is stored in skald_audit"}
	}
	return nil
}
