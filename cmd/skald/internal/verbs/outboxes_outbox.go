// This file has the command skald outbox, and its subcommand status.

package verbs

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// OutboxesCommand returns skald outbox.
func OutboxesCommand(out, errs io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "outbox",
		Short: "Inspect the outbox, write a message, recover a moved database"}
	c.AddCommand(outboxesStatusCommand(out), recoverCommand(out, errs), writeCommand(out),
		outboxesDropCommand(out))
	return c
}

const outboxesStatusAbout = `Shows the number of unpublished messages, the age of the oldest, the number of messages that the broker
refused, and the owner of each shard. It reads the views skald_backlog and skald_shards (docs/sql.md),
which are cheap for an outbox of any size: above 10,000 messages a number is an estimate.`

func outboxesStatusCommand(out io.Writer) *cobra.Command {
	var schema string
	var asJSON bool
	c := &cobra.Command{
		Use: "status", Short: "Show pending messages and the owners of shards",
		Long: outboxesStatusAbout, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			err := unchecked(c, schema, func(ctx context.Context, db operate.StatusStore) error {
				s, err := operate.Status(ctx, db)
				if err != nil {
					return err
				}
				return tellStatus(out, &s, asJSON)
			})
			if err != nil {
				return fmt.Errorf("outbox status: %w", err)
			}
			return nil
		},
	}
	connect.StoreFlags(c, &schema, &asJSON)
	return c
}

// status is the output of --json. The field names are stable.
type status struct {
	Pending       int64         `json:"pending"`
	Exact         bool          `json:"exact"` // false if pending is an estimate
	OldestSeconds float64       `json:"oldest_seconds"`
	Deferred      int64         `json:"deferred"`
	Shards        []shardStatus `json:"shards"`
}

type shardStatus struct {
	Shard   int     `json:"shard"`
	Owner   *string `json:"owner"` // null if the shard is free
	Epoch   int64   `json:"epoch"`
	Pending int64   `json:"pending"`
}

func tellStatus(out io.Writer, s *store.OutboxStatus, asJSON bool) error {
	if asJSON {
		result := status{s.Pending, s.Exact, s.Oldest.Seconds(), s.Deferred, []shardStatus{}}
		for _, l := range s.Shards {
			one := shardStatus{l.Shard, nil, l.Epoch, l.Pending}
			if l.Owner != "" {
				one.Owner = &l.Owner
			}
			result.Shards = append(result.Shards, one)
		}
		return cli.JSON(out).Encode(result)
	}
	about := ""
	if !s.Exact {
		about = "about "
	}
	w := cli.Table(out)
	fmt.Fprintf(w, "pending\t%s%d\n", about, s.Pending)
	fmt.Fprintf(w, "oldest\t%v\n", s.Oldest)
	fmt.Fprintf(w, "deferred\t%d\n\n", s.Deferred)
	fmt.Fprintf(w, "shard\towner\tepoch\tpending\n")
	for _, l := range s.Shards {
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\n", l.Shard, cmp.Or(l.Owner, "–"), l.Epoch, l.Pending)
	}
	return w.Flush()
}
