package verbs

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/operate"
)

const dropAbout = `The message is marked as finished and forgotten: what it had left to do never happens, and a repeat of it is dropped. Messages of
its key that wait for it go on. To do instead what it should have done, write another message.

Of one at a call outside, --call says what you found at the provider, since nobody asks there again: done or refused. It is kept in
skald_audit. A step of a saga that the call takes then counts as taken (or undone, where the call was to undo it), or as never called.
Where the provider has answered already, that counts. What its handler would have written after the call is yours to write.`

func dropCommand(out, errs io.Writer) *cobra.Command {
	w, call := &wanted{dead: true}, ""
	c := &cobra.Command{Use: "drop", Short: "Give dead letters up, for a reason", Long: dropAbout,
		Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
			found := operate.Settlement(call)
			if call != "" && found != operate.CallDone && found != operate.CallRefused {
				return &cli.UsageError{What: fmt.Sprintf("--call is %s or %s, not %q", operate.CallDone,
					operate.CallRefused, call)}
			}
			return w.bulk(c, errs, "drop", func(ctx context.Context, k keeper, o operate.Order) error {
				r, err := operate.Drop(ctx, k, w.selection(), found, o)
				if cli.Reported(err) {
					return errors.Join(tellBulk(out, w, "drop", r.Report, callWanted(r.Unsettled)...), err)
				}
				if wants := new(operate.UnsettledError); errors.As(err, &wants) {
					err = &cli.UsageError{What: "drop " + callWanted([]operate.UnsettledError{*wants})[0]}
				}
				return err
			})
		}}
	w.bulkFlags(c)
	c.Flags().StringVar(&call, "call", "", "what became of the calls outside that they are at: "+
		string(operate.CallDone)+" or "+string(operate.CallRefused))
	return c
}

// callWanted says of which messages --call will be wanted.
func callWanted(list []operate.UnsettledError) (out []string) {
	for _, u := range list {
		out = append(out,
			fmt.Sprintf("%s: %s, and nobody asks what became of it once the message is dropped: look it up at the provider, then say --call %s or --call %s",
				u.ID, u.Where(), operate.CallDone, operate.CallRefused))
	}
	return out
}
