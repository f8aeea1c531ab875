package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

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
		RunE: func(c *cobra.Command, _ []string) error {
			return (&act{w: w, out: out, errs: errs, verb: "release", effect: release}).run(c)
		}}
	w.bulkFlags(free)
	c.AddCommand(listCommand(out, false, "What is parked, in the order of arrival"), free)
	return c
}

func deadCommand(out, errs io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "dead", Short: "Dead letters: look, redrive, drop", RunE: func(c *cobra.Command, _ []string) error {
		c.SetOut(c.ErrOrStderr())
		return errors.Join(&place.UsageError{What: "which command of dead?"}, errTold, c.Usage())
	}}
	c.AddCommand(groupsCommand(out), listCommand(out, true, "Dead letters, in the order of arrival"), showDeadCommand(out), redriveCommand(out, errs), redrivesCommand(out), dropCommand(out, errs),
		editCommand(out), exportCommand(out), importCommand(out, errs))
	return c
}

// kindRejected is the kind of a rejection that is a dead letter, too.
const kindRejected = "rejected"

// givenUp is the mark of a dead letter that will never be taken. A rejection has one already, where it was made.
func givenUp(ctx context.Context, k keeper, p *store.Parked, why string) (*store.Mark, error) {
	if p.Dead != nil && p.Dead.Kind == kindRejected {
		seen, err := k.Seen(ctx, p.Consumer, []store.Identity{p.Identity})
		if err != nil || seen[0].Outcome != store.Fresh {
			return nil, err
		}
	}
	return &store.Mark{Consumer: p.Consumer, Identity: p.Identity, As: store.Rejected, Reason: why, Held: true}, nil
}

// A group is what --json prints of dead letters that failed in one way: its names are stable.
type group struct {
	Consumer    string `json:"consumer"`
	Fingerprint string `json:"fingerprint"`
	Kind        string `json:"kind"`
	Type        string `json:"type"`
	Count       int    `json:"count"`
	Error       string `json:"error"` // of one of them

	First time.Time `json:"first_dead_at"`
	Last  time.Time `json:"last_dead_at"`
}

func (g *group) add(at time.Time) {
	if g.Count++; g.First.IsZero() || at.Before(g.First) {
		g.First = at
	}
	if at.After(g.Last) {
		g.Last = at
	}
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
			all[i].add(p.Dead.At)
			return true, nil
		}); err != nil {
			return err
		}
		if w.limit > 0 {
			all = all[:min(w.limit, len(all))]
		}
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		if len(all) > 0 && !w.asJSON {
			fmt.Fprintln(table, "dead\tconsumer\tfingerprint\tkind\ttype\tfirst\tlast\terror of one")
		}
		for _, g := range all {
			if w.asJSON {
				err = errors.Join(err, json.NewEncoder(out).Encode(g))
				continue
			}
			why, _, _ := strings.Cut(g.Error, "\n")
			fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", g.Count, g.Consumer, g.Fingerprint, g.Kind, g.Type,
				g.First.Format(time.RFC3339), g.Last.Format(time.RFC3339), why)
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
			enc.SetEscapeHTML(false)
			return n != w.limit, enc.Encode(jsonOf(&p))
		})
		if err == nil && n == 0 {
			err = &place.NoneError{What: "no dead letter is meant by these flags"}
		}
		return err
	}}
	w.flags(c, false)
	return c
}
