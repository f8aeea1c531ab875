package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/store"
)

const maintainAbout = `Empties what is older than it is kept: rows that every lane has passed, marks, answers, what was taken out of
quarantine, and steps of sagas that began before. Relays do this by themselves, and consumers with inbox.Options.Keep: this is for where neither runs, or for
a look. What somebody has in hand it leaves for the next time, and says so.`

func maintainCommand(out io.Writer) *cobra.Command {
	var schema string
	var asJSON bool
	var keep store.Retention
	c := &cobra.Command{Use: "maintain", Short: "Empty what is older than it is kept", Long: maintainAbout, Args: cobra.NoArgs}
	storeFlags(c, &schema, &asJSON)
	c.Flags().DurationVar(&keep.Outbox, "keep-outbox", 7*24*time.Hour, "how long rows are kept once they are published")
	c.Flags().DurationVar(&keep.Marks, "keep-marks", 30*24*time.Hour, "how long marks are kept; at least as long as rows")
	c.Flags().DurationVar(&keep.Steps, "keep-steps", 90*24*time.Hour, "how long steps are kept after their saga began: no saga may take longer")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return withKnower(c, schema, store.Relay, func(ctx context.Context, k knower) error {
			did, err := maintain(ctx, k, keep)
			if err != nil {
				return err
			}
			if asJSON {
				left := did.Left
				if left == nil {
					left = []string{}
				}
				return json.NewEncoder(out).Encode(map[string]any{"rows": did.Rows, "marks": did.Marks, "steps": did.Steps, "left": left})
			}
			fmt.Fprintf(out, "rows   %s\nmarks  %s\nsteps  %d\n", gone(did.Rows), gone(did.Marks), did.Steps)
			for _, what := range did.Left {
				fmt.Fprintln(out, "left   "+what)
			}
			return nil
		})
	}
	return c
}

// maintain goes on until nothing is left that can be had.
func maintain(ctx context.Context, k knower, keep store.Retention) (sum store.Maintained, err error) {
	for more := true; more; {
		did, err := k.Maintain(ctx, keep)
		if err != nil {
			return sum, fmt.Errorf("maintain: %w", err)
		}
		sum.Rows, sum.Marks, sum.Steps = added(sum.Rows, did.Rows), added(sum.Marks, did.Marks), sum.Steps+did.Steps
		sum.Left, more = did.Left, did.More
	}
	return sum, nil
}

// added: whole slots were not counted.
func added(sum, n int64) int64 {
	if sum < 0 || n < 0 {
		return -1
	}
	return sum + n
}

func gone(n int64) string {
	if n < 0 {
		return "whole slots"
	}
	return fmt.Sprint(n)
}
