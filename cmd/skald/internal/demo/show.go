package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/skald-go/skald/cmd/skald/internal/exit"
	"github.com/skald-go/skald/examples/shop/audit"
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
		err = fmt.Errorf("%w: no demo has run at %s", exit.ErrNone, s.URL())
	}
	if err != nil {
		return nil, err
	}
	dbs, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	chapters, err := audit.Story(ctx, dbs, order)
	if err != nil {
		return nil, err
	}
	if len(chapters) == 0 {
		return nil, &exit.UsageError{What: fmt.Sprintf("there is no order %s at %s", order, s.URL())}
	}
	moves, err := s.moves(ctx, order)
	if err != nil {
		return nil, err
	}
	outside := tellMoves(moves)
	lines = append(lines, "order "+order)
	if e.report == nil {
		return append(slices.Concat(lines, tellAll(chapters, nil, nil, o.orchestrated()), outside),
			"The run is not finished: what came again and which faults struck is not known yet."), nil
	}
	repeats, watched := e.report.Repeats[order]
	lines = slices.Concat(lines, tellAll(chapters, repeats, e.report.Faults[order], o.orchestrated()),
		outside)
	if !watched {
		lines = append(lines,
			fmt.Sprintf("Not one of the first %d orders that were watched: what came again and which faults struck is not known.", watchedOrders))
	}
	return lines, nil
}
