// Package demo runs `skald demo`: the six services of a shop in one process, with orders and faults. At the
// end an auditor checks all promises.
//
// A run passes through these files: ledger.go (the record of the run), site.go (its databases), crew.go
// (the services, which die and start again), session.go (one session of a service), rest.go (the wait until
// all work is done), report.go and story.go (the result). Other files: ground (databases), bus
// (broker), sabotage (a removed safeguard), customers, oncall (the operator of dead letters), observer
// (records deliveries and faults).
package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/event"
)

// ErrGreen reports that no promise is broken although a safeguard was removed.
var ErrGreen = errors.New(
	"no promise is broken although a safeguard is missing; try more --orders, or --faults wild")

// ErrRed reports a broken promise.
var ErrRed = errors.New("promises are broken")

// Options configures a run.
type Options struct {
	Orders   int
	Seed     uint64
	Faults   string // none, some or wild
	Sabotage string // "", or the safeguard to leave out
	Style    string // choreographed, or orchestrated
	Prefix   string // of schemas, topics and groups
	// Typed is the quoted name of Store for a printed command, without a password.
	Typed string
	// Store and Broker are URLs. sqlite: takes a folder.
	Store, Broker string
	Redis         string // URL of a Redis in front of the databases; empty means none
	// Given has the names of the flags that were given. If the run continues an earlier one, the record of
	// that run sets the other options.
	Given map[string]bool
	// Progress, if not nil, is called with the progress of the run.
	Progress func(Progress)
	// Logger receives the logs of the services. Injected faults are not logged as errors.
	Logger *slog.Logger
	// First is called once, after the first order was placed.
	First func()
	// Told is called with the report at the end of the run.
	Told func(*Report) error
	// Keep, if not nil, makes Run continue after the report until ctx is done, without faults and with all
	// safeguards. It is called with the URLs for orders and of the console.
	Keep func(orders, console string)
	// Operator is the author of changes in the console.
	Operator string
}

// Progress is the progress of a run.
type Progress struct {
	Orders int // the number of orders to place
	audit.Tally
}

// Check returns a usage error for invalid options.
func (o *Options) Check() error {
	switch {
	case o.Orders < 1 || o.Orders > 1_000_000:
		return &cli.UsageError{What: "--orders is 1 to 1,000,000"}
	case !oneOf(o.Faults, "none", "some", "wild"):
		return &cli.UsageError{What: fmt.Sprintf("--faults is none, some or wild, not %q", o.Faults)}
	case !regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,39}$`).MatchString(o.Prefix):
		return &cli.UsageError{What: "--prefix has 1 to 40 characters of A-Z a-z 0-9 _ -"}
	}
	switch {
	case !oneOf(o.Style, Styles()...):
		return &cli.UsageError{What: fmt.Sprintf("--style is %s, not %q", strings.Join(Styles(), " or "),
			o.Style)}
	case o.orchestrated() && o.Sabotage != "":
		return &cli.UsageError{
			What: "--style orchestrated and --sabotage exclude each other: only the choreographed shop can run without a safeguard"}
	}
	if o.Redis != "" && o.Sabotage != "" {
		return &cli.UsageError{
			What: "--redis and --sabotage exclude each other: a cache would hide effects of the missing safeguard"}
	}
	return check(o.Sabotage, o.Store)
}

// Styles returns the values of --style.
func Styles() []string { return []string{"choreographed", "orchestrated"} }

// Sabotages returns the values of --sabotage.
func Sabotages() []string { return names() }

func (o *Options) orchestrated() bool { return styleOf(o.Style) == event.Orchestrated }

// styleOf returns the style for a value of --style.
func styleOf(word string) event.Style {
	if word == Styles()[1] {
		return event.Orchestrated
	}
	return event.Choreographed
}

func oneOf(s string, all ...string) bool {
	for _, one := range all {
		if s == one {
			return true
		}
	}
	return false
}

// Run starts a run or continues an unfinished one. It audits a finished run again. It returns an error that
// wraps ErrRed if a promise is broken. With a sabotage it returns ErrGreen if no promise is broken. A
// signal after the report does not change the result.
func Run(ctx context.Context, o Options) error {
	if err := o.Check(); err != nil {
		return err
	}
	report, err := run(ctx, &o)
	switch {
	case report == nil && ctx.Err() != nil:
		return cli.ErrInterrupted
	case err != nil:
		return err
	case !report.OK:
		return &cli.FailedError{Err: report.broken(o.Sabotage)}
	case o.Sabotage != "":
		return ErrGreen
	}
	return nil
}

// run returns the report, or nil if the run did not reach its report.
func run(ctx context.Context, o *Options) (r *Report, err error) {
	began := time.Now()
	s, err := openSite(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	book, e, err := find(ctx, s, o)
	if err != nil {
		return nil, err
	}
	if e != nil && e.isOver() && o.Keep == nil {
		return o.notify(e.report.auditAgain(ctx, s))
	}
	b, err := open(o.Broker)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if e == nil {
		if book, err = claim(ctx, s, b, o); err != nil {
			return nil, err
		}
	}
	release, err := s.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if e, err = book.find(ctx); err != nil {
		return nil, err
	}
	if e == nil {
		return nil, removed(s.URL())
	}
	ids, made, err := b.Topics(ctx, e.onBus())
	if err == nil && made {
		e.topics = ids
		err = book.noteTopics(ctx, e)
	}
	if err != nil {
		return nil, err
	}
	cache, end, err := openCache(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	c, err := newCrew(s, b, book, o)
	if err != nil {
		return nil, err
	}
	c.cache = cache
	if e.isOver() {
		r, err = o.notify(e.report.auditAgain(ctx, s))
	} else {
		r, err = o.notify(c.run(ctx, began, e))
	}
	if r != nil && err == nil && o.Keep != nil {
		err = c.keep(ctx, e.report)
	}
	return r, err
}

// notify calls Told with the report r, unless r is nil.
func (o *Options) notify(r *Report, err error) (*Report, error) {
	if r == nil || err != nil {
		return nil, err
	}
	return r, o.Told(r)
}

// run does all work of the run, returns the report, and stores it in e. It returns nil if ctx is done first.
func (c *crew) run(ctx context.Context, began time.Time, e *entry) (*Report, error) {
	if err := c.work(ctx); err != nil || ctx.Err() != nil {
		return nil, err
	}
	r, err := c.report(ctx, time.Since(began))
	if err != nil {
		return nil, err
	}
	e.report = &finished{Report: *r, Story: r.Story, Remains: r.Remains, Repeats: c.watch.Repeats(c.o.Prefix),
		Faults: c.watch.Faults()}
	return r, c.book.finish(ctx, *e.report)
}

// find returns the run that created the databases, or nil if there is none.
func find(ctx context.Context, s site, o *Options) (*ledger, *entry, error) {
	book, err := s.book(ctx)
	if err != nil || book == nil {
		return nil, nil, err
	}
	e, err := book.find(ctx)
	if err != nil || e == nil {
		return nil, nil, err
	}
	return book, e, e.agree(o)
}

// claim begins a run. It returns a *cli.ForeignError if a database or topic of the run exists already.
func claim(ctx context.Context, s site, b *messageBus, o *Options) (*ledger, error) {
	cluster, err := b.Cluster(ctx, o.Prefix)
	if err != nil {
		return nil, err
	}
	e := &entry{prefix: o.Prefix, seed: o.Seed, orders: o.Orders, sabotage: o.Sabotage, style: o.Style,
		cluster: cluster}
	return s.claim(ctx, e)
}

// finished is a report in the table demo_run.
type finished struct {
	Report  Report   `json:"report"`
	Story   []string `json:"story"`
	Remains string   `json:"remains"`
	// Repeats has the repeated deliveries of the observed orders.
	Repeats map[string][]repeat `json:"repeats"`
	// Faults has the faults that were injected into their messages.
	Faults map[string][]fault `json:"faults"`
	// Open reports that orders were placed after the report, so their sagas may be running.
	Open bool `json:"open,omitempty"`
}

// auditAgain returns the report of a finished run, with a new audit.
func (f *finished) auditAgain(ctx context.Context, s site) (*Report, error) {
	r := f.Report
	r.Story, r.Again, r.Remains = f.Story, true, f.Remains
	dbs, err := s.Read(ctx)
	if err == nil {
		r.Invariants, err = audit.Run(ctx, dbs)
	}
	if err != nil {
		return nil, err
	}
	r.OK = audit.OK(r.Invariants)
	return &r, nil
}
