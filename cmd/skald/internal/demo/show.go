package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
)

// Show tells the story of one order of a run, from its databases: each message, its row, each mark with the
// file of its handler, and the repeats and injected faults, as far as the order was watched.
func Show(ctx context.Context, o Options, order string) (lines []string, err error) {
	s, err := openSite(&o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	_, e, err := find(ctx, s, &o)
	if err == nil && e == nil {
		err = fmt.Errorf("%w: no demo has run at %s", cli.ErrNone, s.URL())
	}
	if err != nil {
		return nil, err
	}
	dbs, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	one, err := kept(ctx, s, dbs, order)
	if err != nil {
		return nil, err
	}
	if len(one.Chapters) == 0 {
		return nil, &cli.UsageError{What: fmt.Sprintf("there is no order %s at %s", order, s.URL())}
	}
	one.Orchestrated = o.orchestrated()
	watched := false
	if e.report != nil {
		one.Repeats, watched = e.report.Repeats[order]
		one.Faults = e.report.Faults[order]
	}
	lines = append([]string{"order " + order}, one.Lines()...)
	switch {
	case e.report == nil:
		lines = append(lines,
			"The run is not finished: what came again and which faults struck is not known yet.")
	case !watched:
		lines = append(lines,
			fmt.Sprintf("Not one of the first %d orders that were watched: what came again and which faults struck is not known.", orders))
	}
	return lines, nil
}
