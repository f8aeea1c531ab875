package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/gateway"
	"github.com/skald-go/skald/examples/shop/mail"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/rediscache"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/sagatest"
)

// crew runs the six services in one process.
type crew struct {
	site      site
	book      *ledger
	o         *Options
	bus       *messageBus
	faults    *sagatest.Faults
	lack      *lack
	watch     *observer
	once      sync.Once
	open      chan struct{} // closed when customers can place orders
	customers *shoppers
	ready     chan string // receives each service with an open database
	moods     *gateway.Moods
	cache     *rediscache.Cache // in front of all databases; nil without --redis
	bank      gateway.Gateway   // set before Payment's first session
	mailMoods *mail.Moods
	mailer    mail.Sender // set before Notification's first session

	poisoned atomic.Int64 // the number of unreadable messages that this process published
	dropped  atomic.Int64 // the number of unreadable messages that the operator dropped

	mu    sync.Mutex
	tally tally
}

// tally counts the messages of this process.
type tally struct{ published, delivered, duplicates, parked, unknownSettled int64 }

// deadlyEnough is the minimum share of calls at which a service dies with --sabotage ack-first. With this
// share, a promise breaks within twenty orders.
const deadlyEnough = 0.003

// drain limits the time that a service needs to stop.
const drain = 5 * time.Second

// sqliteWorkers is the number of concurrent handlers of a service on SQLite. Only one write transaction runs
// at a time, so more handlers would only wait, and each needs memory for its connection.
const sqliteWorkers = 3

// Options of the saga engines. look is short, because the customers start sagas through an engine that does
// not run, and the running engine finds them at its next poll. lease is short, so that the lease of a dead
// service ends soon.
const (
	look  = 50 * time.Millisecond
	lease = 3 * time.Second
)

// maxCrashes is the number of crashes after which a message counts as their cause. The default of 3 is too
// low here, because the demo kills services at random, much more often than real services die.
const maxCrashes = 20

func newCrew(s site, b *messageBus, book *ledger, o *Options) (*crew, error) {
	lack, err := newSabotage(o.Sabotage)
	if err != nil {
		return nil, err
	}
	rates, _ := sagatest.RatesOf(o.Faults) // Check has checked the name
	moods, _ := gateway.RatesOf(o.Faults)
	mailMoods, _ := mail.RatesOf(o.Faults)
	if o.Sabotage == ackFirst && rates.Die > 0 {
		rates.Die = max(rates.Die, deadlyEnough)
	}
	return &crew{
		site: s, book: book, o: o, bus: b,
		faults:    sagatest.NewFaults(o.Seed, rates),
		moods:     gateway.NewMoods(o.Seed, moods),
		mailMoods: mail.NewMoods(o.Seed, mailMoods),
		lack:      lack,
		watch:     newObserver(),
		open:      make(chan struct{}),
		ready:     make(chan string, len(service.Names())),
	}, nil
}

// work runs the services, places the orders, and waits until no order and no message is in progress.
func (c *crew) work(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	runners := []skald.Runner{runner(func(ctx context.Context) error {
		defer stop()
		return c.trade(ctx)
	})}
	for _, name := range service.Names() {
		runners = append(runners, &serviceRunner{c, name})
	}
	if c.deadLettersPossible() {
		runners = append(runners, runner(c.operate))
	}
	return skald.Run(ctx, runners...)
}

// trade places the orders as soon as the Order service runs, and waits until their sagas have ended.
func (c *crew) trade(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.open:
		c.customers.Load(ctx, c.o.Seed, c.o.Orders)
	}
	for range service.Names() {
		select {
		case <-ctx.Done():
			return nil
		case <-c.ready:
		}
	}
	return c.awaitEnd(ctx)
}

type runner func(ctx context.Context) error

// Run calls r.
func (r runner) Run(ctx context.Context) error { return r(ctx) }

// serviceRunner keeps one service running: after each simulated death it starts the service again.
type serviceRunner struct {
	*crew
	name string
}

// Run restarts the service until ctx is done.
func (h *serviceRunner) Run(ctx context.Context) error {
	if h.name != "order" { // Order starts first
		select {
		case <-ctx.Done():
			return nil
		case <-h.open:
		}
	}
	err := h.prepare(ctx)
	for err == nil && ctx.Err() == nil {
		err = h.live(ctx)
	}
	if err == nil || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("service %s: %w", h.name, err)
}

// prepare creates the database and the first rows of the service, without faults.
func (h *serviceRunner) prepare(ctx context.Context) error {
	if err := h.site.Prepare(ctx, h.name); err != nil {
		return err
	}
	switch h.name {
	case "payment":
		if err := h.openGateway(ctx, h.moods); err != nil {
			return err
		}
	case "notification":
		if err := h.openMail(ctx, h.mailMoods); err != nil {
			return err
		}
	}
	if _, err := h.site.Service(ctx, h.name, h.bus.Own, h.options(h.name)); err != nil {
		return err
	}
	h.ready <- h.name
	if h.name != "order" {
		return nil
	}
	// The session for customers has no simulated deaths.
	s, err := h.site.session(ctx, h.name, h.faults, h.bus.Own, h.crew)
	if err != nil {
		return err
	}
	wishes, err := h.site.wishes(s)
	if err != nil {
		return err
	}
	h.customers = &shoppers{Door: s.HTTP(), Wishes: wishes, Logger: h.o.Logger, Placed: h.placed}
	close(h.open)
	return nil
}

func (c *crew) options(name string) *service.Options {
	o := &service.Options{Prefix: c.o.Prefix, Style: styleOf(c.o.Style)}
	o.Saga = saga.EngineOptions{Logger: c.o.Logger, MaxPollInterval: look, Lease: lease, Drain: drain}
	switch name {
	case "payment":
		o.Gateway = c.bank
	case "notification":
		o.Mail = c.mailer
	}
	o.Inbox.Logger, o.Relay.Logger = c.o.Logger, c.o.Logger
	o.Inbox.Retry.InitialInterval, o.Inbox.Retry.MaxInterval = 20*time.Millisecond, time.Second
	o.Relay.RetryFirst, o.Relay.RetryMost = 20*time.Millisecond, time.Second
	o.Inbox.Timeouts.Drain, o.Relay.Drain = drain, drain
	if strings.HasPrefix(c.o.Store, "sqlite:") && c.o.Sabotage == "" { // a sabotage needs concurrent handlers
		o.Inbox.Workers = sqliteWorkers
	}
	// On a busy machine handlers time out, and open the breaker. With this setting the breaker stays open for
	// at most 16 s, which is less than patience.
	o.Inbox.Breaker.Rest = time.Second
	o.Inbox.Retry.Crashes = maxCrashes
	if c.cache != nil {
		o.Inbox.Cache.Finished, o.Seen = c.cache, c.cache
	}
	o.Inbox.Timeouts.Wait = time.Second // so that the claims of a dead service end soon
	return o
}

// live runs one session of the service, until it dies or ctx is done.
func (h *serviceRunner) live(ctx context.Context) error {
	client, err := h.bus.Connect()
	if err != nil {
		return err
	}
	session := h.faults.Session()
	h.watch.Struck(h.name, session)
	s, err := h.site.session(ctx, h.name, session, client, h.crew)
	if err != nil {
		return errors.Join(err, client.Close())
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var over sync.WaitGroup
	over.Go(func() {
		select {
		case <-session.Died():
			stop()
		case <-ctx.Done():
		}
	})
	err = skald.Run(ctx, s.Runners()...)
	stop()
	over.Wait()
	h.count(s)
	return errors.Join(err, client.Close())
}

// count adds the counts of a session to the tally.
func (c *crew) count(s place.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range s.Runners() {
		switch r := r.(type) {
		case interface{ Health() inbox.Health }:
			c.tally.delivered += r.Health().Received
			c.tally.duplicates += r.Health().Duplicates
			c.tally.parked += r.Health().Parkings
			c.tally.unknownSettled += r.Health().UnknownSettled
		case interface{ Health() relay.Health }:
			c.tally.published += r.Health().Published
		}
	}
}

// placed is called after each placed order.
func (c *crew) placed(ctx context.Context, id string, n int) {
	if c.o.First != nil {
		c.once.Do(c.o.First)
	}
	c.poison(ctx, id, n)
}
