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

// A hold is a place in the line for an entity, as JSON.
type hold struct {
	Space  string    `json:"space"`
	Key    []byte    `json:"key"`
	Name   string    `json:"saga"` // that asked, its definition
	Saga   string    `json:"saga_key"`
	Holder string    `json:"holder"` // its id, or that of the saga at the top of its family
	Since  time.Time `json:"since"`
	Before int       `json:"before"`  // how many stand before it; 0: it holds the entity
	Behind int       `json:"waiting"` // how many stand behind it
}

const holdsAbout = `Which sagas hold entities, by a step that is a Lock, and how many wait for each.
With an entity, its space and its key: the whole line for it. A key that is no text is given as base64:…, as the list prints it.`

func holdsCommand(out io.Writer) *cobra.Command {
	w, limit := &sagasWanted{}, 0
	c := &cobra.Command{Use: "holds [SPACE KEY]", Short: "Which sagas hold entities, and who waits for them",
		Long: holdsAbout, Args: cobra.MaximumNArgs(2)}
	w.flags(c)
	c.Flags().IntVar(&limit, "limit", 1000, "look at so many places in lines, at most")
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
			return &cli.UsageError{What: "a limit is how many places at most: 1 or more"}
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
				fmt.Fprintf(c.ErrOrStderr(), "only %d places were looked at: there are others, see --limit\n",
					limit)
			}
			if n == 0 && q.Entity != nil {
				return &cli.NoneError{What: fmt.Sprintf("no saga holds %s %s, or waits for it", args[0],
					args[1])}
			}
			cli.None(c.ErrOrStderr(), n, w.JSON)
			return nil
		})
	}
	return c
}

// tellHolds lists places; alone: those of who holds an entity.
func tellHolds(out io.Writer, list []store.Hold, alone, asJSON bool) (n int, err error) {
	t := cli.Table(out)
	for _, h := range list {
		if alone && h.Before > 0 {
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
			fmt.Fprintln(t, "space\tkey\tsaga\tsaga key\tsince\tbefore it\twait for it")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%d\n", cli.Line(h.Space), connect.KeyText([]byte(h.Key)),
			h.Saga.Name, cli.ShortKey(h.Saga.Key), cli.Time(h.Since), h.Before, h.Behind)
	}
	return n, t.Flush()
}
