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

const dropAbout = `Marks dead letters as finished. Their remaining work never happens, and duplicates of them are dropped.
Later messages of the same key continue. To replace their effect, write another message.

If a dead letter has an external call in progress, look up the outcome at the provider, and give it with
--call: Skald does not ask the provider after the drop. With done, a saga step of the call counts as done
(or as undone, if the call undoes it). With refused, it counts as never called. An answer that Skald
already has takes precedence. You have to make the other writes of the handler yourself.`

func dropCommand(out, errs io.Writer) *cobra.Command {
	w, call := &wanted{dead: true}, ""
	c := &cobra.Command{Use: "drop", Short: "Drop dead letters, with a reason", Long: dropAbout,
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
	c.Flags().StringVar(&call, "call", "", "`OUTCOME` of their external calls: "+
		string(operate.CallDone)+" or "+string(operate.CallRefused))
	return c
}

// callWanted returns a text for each message that needs --call.
func callWanted(list []operate.UnsettledError) (out []string) {
	for _, u := range list {
		out = append(out,
			fmt.Sprintf("%s: %s, and its outcome is never queried after the drop: look it up at the provider, then give --call %s or --call %s",
				u.ID, u.Where(), operate.CallDone, operate.CallRefused))
	}
	return out
}
