package demo

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/skald-go/skald/examples/shop/audit"
)

// Report is the result of a run. The numbers of orders, written messages and handled messages come from the
// databases. The other numbers are those of the process that ended the run.
type Report struct {
	OK         bool              `json:"ok"`
	Store      string            `json:"store"`
	Broker     string            `json:"broker"`
	Seed       uint64            `json:"seed"`
	Seconds    float64           `json:"seconds"`
	Orders     Orders            `json:"orders"`
	Messages   Messages          `json:"messages"`
	Sagas      *audit.Sagas      `json:"sagas,omitempty"` // nil unless --style is orchestrated
	Cache      *Cached           `json:"cache,omitempty"` // nil without --redis
	Faults     map[string]int64  `json:"faults"`
	Invariants []audit.Invariant `json:"invariants"`

	Story   []string `json:"-"` // of one order
	Again   bool     `json:"-"` // an earlier process ended the run
	Remains string   `json:"-"` // the databases, topics and groups that the run leaves
}

// Orders counts the orders of a run.
type Orders struct {
	Placed    int `json:"placed"`
	Confirmed int `json:"confirmed"`
	Cancelled int `json:"cancelled"`
}

// Messages counts the messages of a run. Written messages are in the outboxes, and Delivered includes
// Duplicates. Handled includes Rejected. Redriven and Dropped count the changes of the operator to dead
// letters. Barred counts payments and reservations that were undone before they were done.
type Messages struct {
	Written    int   `json:"written"`
	Published  int64 `json:"published"`
	Delivered  int64 `json:"delivered"`
	Duplicates int64 `json:"duplicates"`
	Handled    int   `json:"handled"`
	Rejected   int   `json:"rejected"`
	Barred     int   `json:"barred"`
	Parked     int64 `json:"parked"`
	Dead       int   `json:"dead"`
	Redriven   int   `json:"redriven"`
	Dropped    int   `json:"dropped"`
	// UnknownSettled counts calls of the gateway with an outcome that was unknown for a while.
	UnknownSettled int64 `json:"unknown_settled"`
}

// report runs the auditor after all work is done, and returns the report.
func (c *crew) report(ctx context.Context, took time.Duration) (*Report, error) {
	dbs, err := c.site.Read(ctx)
	if err != nil {
		return nil, err
	}
	n, err := audit.Count(ctx, dbs)
	if err != nil {
		return nil, err
	}
	ends, err := audit.CountEnds(ctx, dbs)
	if err != nil {
		return nil, err
	}
	found, err := audit.Run(ctx, dbs)
	if err != nil {
		return nil, err
	}
	var sagas *audit.Sagas
	if c.o.orchestrated() {
		counted, err := audit.CountSagas(ctx, dbs)
		if err != nil {
			return nil, err
		}
		sagas = &counted
	}
	story, err := c.story(ctx, dbs, found)
	if err != nil {
		return nil, err
	}
	faults := c.faults.Counts()
	maps.Copy(faults, c.moods.Counts())
	maps.Copy(faults, c.mailMoods.Counts())
	return &Report{
		OK: audit.OK(found), Store: c.site.URL(), Broker: c.bus.URL, Seed: c.o.Seed,
		Seconds: float64(took.Milliseconds()) / 1000,
		Orders:  Orders{n.Placed, n.Confirmed, n.Cancelled},
		Messages: Messages{
			Written: n.Written, Published: c.tally.published, Delivered: c.tally.delivered,
			Duplicates: c.tally.duplicates, Handled: n.Handled,
			Rejected: ends.Rejected, Barred: ends.Barred, Parked: c.tally.parked,
			Dead: ends.Dead + ends.Redriven + ends.Dropped, Redriven: ends.Redriven, Dropped: ends.Dropped,
			UnknownSettled: c.tally.unknownSettled,
		},
		Sagas: sagas, Cache: c.cached(), Faults: faults, Invariants: found, Story: story,
		Remains: c.site.Remains() + c.bus.Remains(c.o.Prefix),
	}, nil
}

// broken returns ErrRed with the names of the broken promises.
func (r *Report) broken(sabotage string) error {
	var names []string
	for _, i := range r.Invariants {
		if !i.OK {
			names = append(names, i.Name)
		}
	}
	if sabotage != "" {
		return fmt.Errorf("%w without a safeguard (%s), as expected: %s", ErrRed, sabotage,
			strings.Join(names, ", "))
	}
	return fmt.Errorf("%w: %s", ErrRed, strings.Join(names, ", "))
}
