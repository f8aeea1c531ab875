// Package demo is what `skald demo` does: the shop's six services in one process, orders, faults, and the
// auditor.
//
// The way of a run through the files: ledger.go (is there a run here, and is it ours), site.go (its
// databases), crew.go (the services, each running until it dies, and again), session.go (one life of one),
// rest.go (until nothing moves any more), report.go and story.go (what is told). The rooms: ground (where
// the databases are), bus (the broker), sabotage (a safeguard left out), customers, oncall (who sees to dead
// letters), witness (who watches), story (how it is told).
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

// ErrGreen: a safeguard was taken out, and the auditor found nothing.
var ErrGreen = errors.New(
	"the auditor finds nothing wrong although a safeguard is missing; try more --orders, or --faults wild")

// ErrRed: the auditor found a broken promise.
var ErrRed = errors.New("promises are broken")

// Options of a run.
type Options struct {
	Orders   int
	Seed     uint64
	Faults   string // none, some or wild
	Sabotage string // "", or the safeguard to leave out
	Style    string // choreographed, or orchestrated
	Prefix   string // of schemas, topics and groups
	// Typed is how a command names Store, as a word of a shell: without a password.
	Typed string
	// Store and Broker are URLs. sqlite: takes a folder.
	Store, Broker string
	Redis         string // URL of a Redis in front of the databases; "": none
	// Given are the flags that were given. An earlier run is asked about the others.
	Given map[string]bool
	// Progress is told how far the run has come; nil: nobody is.
	Progress func(Progress)
	// Logger of the services. Faults are no news.
	Logger *slog.Logger
	// First is when the first order was placed; it is called once.
	First func()
	// Told gets the report, as soon as there is one.
	Told func(*Report) error
	// Keep, if set, is told where orders are taken, and where the console is, when the report is told: the
	// services go on until they are stopped, without faults and with all safeguards.
	Keep func(orders, console string)
	// Operator is whoever acts in that console.
	Operator string
}

// Progress is how far a run has come.
type Progress struct {
	Orders int // there are to be
	audit.Tally
}

// Check finds fault with the options before anything is touched.
func (o *Options) Check() error {
	switch {
	case o.Orders < 1 || o.Orders > 1_000_000:
		return &cli.UsageError{What: "--orders is 1 to 1,000,000"}
	case !oneOf(o.Faults, "none", "some", "wild"):
		return &cli.UsageError{What: fmt.Sprintf("--faults is none, some or wild, not %q", o.Faults)}
	case !regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,39}$`).MatchString(o.Prefix):
		return &cli.UsageError{What: "--prefix is 1 to 40 of A-Z a-z 0-9 _ -"}
	}
	switch {
	case !oneOf(o.Style, Styles()...):
		return &cli.UsageError{What: fmt.Sprintf("--style is %s, not %q", strings.Join(Styles(), " or "),
			o.Style)}
	case o.orchestrated() && o.Sabotage != "":
		return &cli.UsageError{
			What: "--style orchestrated and --sabotage: what a missing safeguard breaks is shown by the choreographed shop; give one of them"}
	}
	if o.Redis != "" && o.Sabotage != "" {
		return &cli.UsageError{
			What: "--redis and --sabotage: a cache would hide some of what a missing safeguard does; give one of them"}
	}
	return check(o.Sabotage, o.Store)
}

// Styles are the words for --style.
func Styles() []string { return []string{"choreographed", "orchestrated"} }

// Sabotages are the words for --sabotage.
func Sabotages() []string { return names() }

func (o *Options) orchestrated() bool { return styleOf(o.Style) == event.Orchestrated }

// styleOf is the style of the shop that a word names.
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

// Run makes a run, or goes on with the one that is there; a finished one is audited again. It returns ErrRed
// when a promise is broken, and under sabotage also when none is: ErrGreen. A signal after the report is told
// does not change that.
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

// run returns a report if one was told.
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
	if e != nil && e.over() && o.Keep == nil {
		return o.told(e.report.again(ctx, s))
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
		err = book.made(ctx, e)
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
	if e.over() {
		r, err = o.told(e.report.again(ctx, s))
	} else {
		r, err = o.told(c.run(ctx, began, e))
	}
	if r != nil && err == nil && o.Keep != nil {
		err = c.keep(ctx, e.report)
	}
	return r, err
}

// told tells r, if there is one.
func (o *Options) told(r *Report, err error) (*Report, error) {
	if r == nil || err != nil {
		return nil, err
	}
	return r, o.Told(r)
}

// run is the work and its report, which e gets; none if it was interrupted.
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

// find is the run that the databases belong to; nothing, if there is none.
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

// claim begins a run, where nothing of its names is in use yet.
func claim(ctx context.Context, s site, b *messageBus, o *Options) (*ledger, error) {
	cluster, err := b.Cluster(ctx, o.Prefix)
	if err != nil {
		return nil, err
	}
	e := &entry{prefix: o.Prefix, seed: o.Seed, orders: o.Orders, sabotage: o.Sabotage, style: o.Style,
		cluster: cluster}
	return s.claim(ctx, e)
}

// finished is a report as demo_run keeps it.
type finished struct {
	Report  Report   `json:"report"`
	Story   []string `json:"story"`
	Remains string   `json:"remains"`
	// Repeats are those of the orders that were watched.
	Repeats map[string][]repeat `json:"repeats"`
	// Faults are those that were injected into their messages.
	Faults map[string][]fault `json:"faults"`
	// Open: orders were taken behind the report, and may be under way.
	Open bool `json:"open,omitempty"`
}

// again tells of a finished run once more, and asks the auditor anew.
func (f *finished) again(ctx context.Context, s site) (*Report, error) {
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
