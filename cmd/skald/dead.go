package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/store"
)

func parkedCommand(out, errs io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "parked", Short: "Messages that failed and are tried again, and those behind them", RunE: func(c *cobra.Command, _ []string) error {
		c.SetOut(c.ErrOrStderr())
		return errors.Join(&place.UsageError{What: "which command of parked?"}, errTold, c.Usage())
	}}
	w := &wanted{}
	free := &cobra.Command{Use: "release", Short: "Have parked messages tried now, with all their attempts before them", Args: cobra.NoArgs,
		Long: `The running consumer takes them within seconds, under their own ids; of one key in their order, one at a time.`,
		RunE: func(c *cobra.Command, _ []string) error { return act(c, w, out, errs, "release", release) }}
	w.flags(free, true)
	c.AddCommand(listCommand(out, false, "What is parked, in the order of arrival"), free)
	return c
}

const redriveAbout = `The message is parked again at its place, and the running consumer takes it within seconds: only the one that failed, under the
same id, one of a key at a time. Messages of its key that wait for it go on behind it. If it fails again, it has all its
attempts before it.`

const dropAbout = `The message is marked as finished and forgotten: its effect never happens, and a repeat of it is dropped. Messages of its key
that wait for it go on. To do instead what it should have done, write another message.`

func deadCommand(out, errs io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "dead", Short: "Dead letters: look, redrive, drop", RunE: func(c *cobra.Command, _ []string) error {
		c.SetOut(c.ErrOrStderr())
		return errors.Join(&place.UsageError{What: "which command of dead?"}, errTold, c.Usage())
	}}
	again, gone := &wanted{dead: true}, &wanted{dead: true}
	redrive := &cobra.Command{Use: "redrive", Short: "Have dead letters taken again by the consumer that failed", Long: redriveAbout, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return act(c, again, out, errs, "redrive", release) }}
	drop := &cobra.Command{Use: "drop", Short: "Give dead letters up, for a reason", Long: dropAbout, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return act(c, gone, out, errs, "drop", func(p *store.Parked) store.Effect {
				return store.Effect{Free: &store.Free{Consumer: p.Consumer, Identity: p.Identity},
					Mark: &store.Mark{Consumer: p.Consumer, Identity: p.Identity, As: store.Rejected, Reason: "dropped: " + gone.reason, Held: true}}
			})
		}}
	again.flags(redrive, true)
	gone.flags(drop, true)
	c.AddCommand(groupsCommand(out), listCommand(out, true, "Dead letters, in the order of arrival"), showDeadCommand(out), redrive, drop)
	return c
}

// A group is what --json prints of dead letters that failed in one way: its names are stable.
type group struct {
	Consumer    string `json:"consumer"`
	Fingerprint string `json:"fingerprint"`
	Kind        string `json:"kind"`
	Type        string `json:"type"`
	Count       int    `json:"count"`
	Error       string `json:"error"` // of one of them
}

func groupsCommand(out io.Writer) *cobra.Command {
	w := &wanted{dead: true}
	c := &cobra.Command{Use: "groups", Short: "Dead letters by what went wrong", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		k, end, err := w.open(c)
		if err != nil {
			return err
		}
		defer end()
		var all []*group
		if err := w.each(c.Context(), k, true, func(p store.Parked) (bool, error) {
			i := slices.IndexFunc(all, func(g *group) bool { return g.Consumer == p.Consumer && g.Fingerprint == p.Dead.Fingerprint })
			if i < 0 {
				i = len(all)
				all = append(all, &group{Consumer: p.Consumer, Fingerprint: p.Dead.Fingerprint, Kind: p.Dead.Kind, Type: p.Message.Type, Error: p.Last.Why})
			}
			all[i].Count++
			return true, nil
		}); err != nil {
			return err
		}
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, g := range all {
			if w.asJSON {
				err = errors.Join(err, json.NewEncoder(out).Encode(g))
				continue
			}
			fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\n", g.Count, g.Consumer, g.Fingerprint, g.Kind, g.Type, g.Error)
		}
		return errors.Join(err, table.Flush())
	}}
	w.flags(c, false)
	return c
}

func showDeadCommand(out io.Writer) *cobra.Command {
	w := &wanted{dead: true}
	c := &cobra.Command{Use: "show", Short: "Dead letters with all that is known, payloads too, as JSON", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		k, end, err := w.open(c)
		if err != nil {
			return err
		}
		defer end()
		n := 0
		err = w.each(c.Context(), k, false, func(p store.Parked) (bool, error) {
			n++
			enc := json.NewEncoder(out)
			if !w.asJSON {
				enc.SetIndent("", "  ")
			}
			return n < w.limit, enc.Encode(jsonOf(&p))
		})
		if err == nil && n == 0 {
			err = &place.NoneError{What: "no dead letter is meant by these flags"}
		}
		return err
	}}
	w.flags(c, false)
	return c
}
