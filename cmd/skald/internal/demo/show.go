package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
)

// Show returns the story of one order of a run, from the databases: each message with its row in the outbox,
// and each mark with the file of the handler. For one of the first orders the story also has the repeated
// deliveries and the injected faults.
func Show(ctx context.Context, o Options, order string) (lines []string, err error) {
	s, err := openSite(&o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	_, e, err := find(ctx, s, &o)
	if err == nil && e == nil {
		err = fmt.Errorf("%w: there is no demo at %s", cli.ErrNone, s.URL())
	}
	if err != nil {
		return nil, err
	}
	dbs, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	one, err := storedStory(ctx, s, dbs, order)
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
			"The run is not finished: repeats and injected faults are not recorded yet.")
	case !watched:
		lines = append(lines,
			fmt.Sprintf("Repeats and injected faults are recorded for the first %d orders only, and not for this one.", orders))
	}
	return lines, nil
}
