package operate

import (
	"context"
)

// runChanges holds the sagas that a run has changed so far.
type runChanges struct {
	db   RunReader
	run  string // empty if there is no run
	ids  map[string]bool
	last int64 // the highest number that was read
}

// maxUnordered limits the audits with a lower number that may become visible after an audit, because
// transactions commit in another order than they take their numbers.
const maxUnordered = 100

// read adds the sagas that the run has changed since the last call of read.
func (c *runChanges) read(ctx context.Context) error {
	if c.run == "" {
		return nil
	}
	for a, err := range runAudits(ctx, c.db, c.run, max(c.last-maxUnordered, 0)) {
		if err != nil {
			return err
		}
		c.last = max(c.last, a.Number)
		if a.Source != "" { // without a source the audit is about the run
			c.ids[a.Source] = true
		}
	}
	return nil
}
