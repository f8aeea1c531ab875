package operate

import (
	"context"
)

// changed are the sagas that a run has changed by now.
type changed struct {
	db   RunReader
	run  string // "": there is none
	ids  map[string]bool
	last int64 // number that was read
}

// unordered is how many numbers of acts may stand after one that stands already: transactions at the same
// time.
const unordered = 100

// read adds those that it did not know of.
func (c *changed) read(ctx context.Context) error {
	if c.run == "" {
		return nil
	}
	for a, err := range runActs(ctx, c.db, c.run, max(c.last-unordered, 0)) {
		if err != nil {
			return err
		}
		if c.last = max(c.last, a.Number); a.Source != "" { // else it is about the run
			c.ids[a.Source] = true
		}
	}
	return nil
}
