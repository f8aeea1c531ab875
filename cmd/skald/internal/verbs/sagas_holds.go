package verbs

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/store"
)

// hold is a place in the queue of an entity, for --json.
type hold struct {
	Space  string    `json:"space"`
	Key    []byte    `json:"key"`
	Name   string    `json:"saga"` // the definition of the waiting saga
	Saga   string    `json:"saga_key"`
	Holder string    `json:"holder"` // the ID of the saga, or of its topmost parent
	Since  time.Time `json:"since"`
	Before int       `json:"before"`  // the number of places before this one; 0 if the saga holds the entity
	Behind int       `json:"waiting"` // the number of places after this one
}

const holdsAbout = `Lists the entities that sagas have locked by a Lock step, and the number of sagas that wait for each.
With SPACE and KEY it lists the whole queue of one entity. A binary key has the form base64:….`

func holdsCommand(out io.Writer) *cobra.Command {
	w, limit := &sagasWanted{}, 0
	c := &cobra.Command{Use: "holds [SPACE KEY]", Short: "List entity locks of sagas and their queues",
		Long: holdsAbout, Args: cobra.MaximumNArgs(2)}
	w.flags(c)
	c.Flags().IntVar(&limit, "limit", 1000, "read at most `N` places of queues")
	c.RunE = func(c *cobra.Command, args []string) error {
		q := store.HoldQuery{Limit: limit}
		switch len(args) {
		case 1:
			return &cli.UsageError{What: "an entity has a space and a key: give both"}
		case 2:
			var key connect.Key
			if err := key.Set(args[1]); err != nil {
				return &cli.UsageError{What: err.Error()}
			}
			q.Entity = &store.Lock{Space: args[0], Key: string(key)}
		}
		if limit < 1 {
			return &cli.UsageError{What: "--limit is 1 or more"}
		}
		return w.look(c, func(ctx context.Context, k sagasKeeper) error {
			list, err := store.ListHolds(ctx, k, q)
			if err != nil {
				return err
			}
			n, err := tellHolds(out, list, q.Entity == nil, w.JSON)
			if err != nil {
				return err
			}
			if len(list) == limit {
				fmt.Fprintf(c.ErrOrStderr(), "only the first %d places are shown: raise --limit to see more\n",
					limit)
			}
			if n == 0 && q.Entity != nil {
				return &cli.NoneError{What: fmt.Sprintf("no saga holds %s %s or waits for it", args[0],
					args[1])}
			}
			cli.Ended(c.ErrOrStderr(), n, n, "entities held by sagas", w.JSON)
			return nil
		})
	}
	return c
}

// tellHolds prints the places in list. If firstOnly is true, it prints only the first place of each queue.
func tellHolds(out io.Writer, list []store.Hold, firstOnly, asJSON bool) (n int, err error) {
	t := cli.Table(out)
	for _, h := range list {
		if firstOnly && h.Before > 0 {
			continue
		}
		n++
		switch {
		case asJSON:
			if err := cli.JSON(out).Encode(hold{h.Space, []byte(h.Key), h.Saga.Name, h.Saga.Key,
				h.Holder, h.Since, h.Before, h.Behind}); err != nil {
				return n, err
			}
			continue
		case n == 1:
			fmt.Fprintln(t, "space\tkey\tsaga\tsaga key\tsince\tbefore it\twaiting")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%d\n", cli.Line(h.Space), connect.KeyText([]byte(h.Key)),
			h.Saga.Name, cli.ShortKey(h.Saga.Key), cli.Time(h.Since), h.Before, h.Behind)
	}
	return n, t.Flush()
}
