// This file has the commands of skald outbox: what waits to be published, a message by hand, a message
// that is given up, and a database that moved.

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

// OutboxesCommand is skald outbox.
func OutboxesCommand(out, errs io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "outbox",
		Short: "What the outbox holds, a message by hand, and what to do when it moved"}
	c.AddCommand(outboxesStatusCommand(out), recoverCommand(out, errs), writeCommand(out),
		outboxesDropCommand(out))
	return c
}

const outboxesStatusAbout = `Says how many messages wait to be published, for how long the oldest has, how many the broker refused, and who owns
each shard. It reads the views skald_backlog and skald_shards (docs/sql.md), which are cheap however long the outbox is:
beyond 10,000 messages a number is an estimate.`

func outboxesStatusCommand(out io.Writer) *cobra.Command {
	var schema string
	var asJSON bool
	c := &cobra.Command{
		Use: "status", Short: "What waits to be published, and who owns the shards",
		Long: outboxesStatusAbout, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			err := unchecked(c, schema, func(ctx context.Context, db operate.Watcher) error {
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

// A status is what --json prints: its names are stable.
type status struct {
	Pending       int64         `json:"pending"`
	Exact         bool          `json:"exact"` // false: pending is an estimate
	OldestSeconds float64       `json:"oldest_seconds"`
	Deferred      int64         `json:"deferred"`
	Shards        []shardStatus `json:"shards"`
}

type shardStatus struct {
	Shard   int     `json:"shard"`
	Owner   *string `json:"owner"` // null: nobody
	Epoch   int64   `json:"epoch"`
	Pending int64   `json:"pending"`
}

func tellStatus(out io.Writer, s *store.OutboxStatus, asJSON bool) error {
	if asJSON {
		told := status{s.Pending, s.Exact, s.Oldest.Seconds(), s.Deferred, []shardStatus{}}
		for _, l := range s.Shards {
			one := shardStatus{l.Shard, nil, l.Epoch, l.Pending}
			if l.Owner != "" {
				one.Owner = &l.Owner
			}
			told.Shards = append(told.Shards, one)
		}
		return cli.JSON(out).Encode(told)
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
