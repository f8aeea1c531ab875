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

// A crew is the six services at work in one process.
type crew struct {
	site      site
	book      *ledger
	o         *Options
	bus       *messageBus
	faults    *sagatest.Faults
	lack      *lack
	watch     *observer
	once      sync.Once
	open      chan struct{} // closed when customers are there
	customers *shoppers
	ready     chan string // gets each service whose database is there
	moods     *gateway.Moods
	cache     *rediscache.Cache // in front of all databases; nil: none
	bank      gateway.Gateway   // set before Payment's first session
	manner    *mail.Moods       // of the mail server
	mailer    mail.Sender       // set before Notification's first session

	poisoned atomic.Int64 // messages that nobody can read, published by this process
	dropped  atomic.Int64 // of these, by the consumers that were given them

	mu    sync.Mutex
	tally tally
}

// tally is what this process counts.
type tally struct{ published, delivered, duplicates, parked, unknownSettled int64 }

// deadlyEnough is how often a service dies, of its calls, where it is deaths that show what is missing: often
// enough for twenty orders.
const deadlyEnough = 0.003

// drain is how long a service that is told to stop may take.
const drain = 5 * time.Second

// turns is how many handlers of a service run at the same time where the transactions of a database take
// turns: more of them only wait, each with a connection whose pages and schema are in memory.
const turns = 3

// An order is placed by an engine that does not run, as the customers' door has one: it is seen with the
// next look. What a dead engine had in hand is soon claimed again.
const (
	look  = 50 * time.Millisecond
	lease = 3 * time.Second
)

// kills is how often a message may be in hand, and nothing else, when its process dies. Deaths are drawn
// here, at any call and at a rate that no estate has, and no message is what a process dies of: by the
// default of 3 one of thousands would be taken for it.
const kills = 20

func newCrew(s site, b *messageBus, book *ledger, o *Options) (*crew, error) {
	lack, err := newSabotage(o.Sabotage)
	if err != nil {
		return nil, err
	}
	rates, _ := sagatest.RatesOf(o.Faults) // Check has seen to the name
	moods, _ := gateway.RatesOf(o.Faults)
	manner, _ := mail.RatesOf(o.Faults)
	if o.Sabotage == ackFirst && rates.Die > 0 {
		rates.Die = max(rates.Die, deadlyEnough)
	}
	return &crew{
		site: s, book: book, o: o, bus: b,
		faults: sagatest.NewFaults(o.Seed, rates),
		moods:  gateway.NewMoods(o.Seed, moods),
		manner: mail.NewMoods(o.Seed, manner),
		lack:   lack,
		watch:  newWitness(),
		open:   make(chan struct{}),
		ready:  make(chan string, len(service.Names())),
	}, nil
}

// work is the whole run: services, orders, and the end of all that moves.
func (c *crew) work(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	runners := []skald.Runner{runner(func(ctx context.Context) error {
		defer stop()
		return c.trade(ctx)
	})}
	for _, name := range service.Names() {
		runners = append(runners, &hand{c, name})
	}
	if c.upsets() {
		runners = append(runners, runner(c.operate))
	}
	return skald.Run(ctx, runners...)
}

// trade places the orders as soon as the shop is open, and waits for the end of all that follows from them.
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
	return c.rest(ctx)
}

type runner func(ctx context.Context) error

// Run calls r.
func (r runner) Run(ctx context.Context) error { return r(ctx) }

// A hand keeps one service running: when it dies, in the middle of a step, it comes back.
type hand struct {
	*crew
	name string
}

// Run lives until ctx is done.
func (h *hand) Run(ctx context.Context) error {
	if h.name != "order" { // which is not to wait for the others' databases
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

// prepare makes the database and the service's first rows, untroubled.
func (h *hand) prepare(ctx context.Context) error {
	if err := h.site.Prepare(ctx, h.name); err != nil {
		return err
	}
	switch h.name {
	case "payment":
		if err := h.openBank(ctx, h.moods); err != nil {
			return err
		}
	case "notification":
		if err := h.openPost(ctx, h.manner); err != nil {
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
	// customers see no service die: they ask again
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
	o.Saga = saga.EngineOptions{Logger: c.o.Logger, PollMost: look, Lease: lease, Drain: drain}
	switch name {
	case "payment":
		o.Gateway = c.bank
	case "notification":
		o.Mail = c.mailer
	}
	o.Inbox.Logger, o.Relay.Logger = c.o.Logger, c.o.Logger
	o.Inbox.Retry.First, o.Inbox.Retry.Most = 20*time.Millisecond, time.Second
	o.Relay.RetryFirst, o.Relay.RetryMost = 20*time.Millisecond, time.Second
	o.Inbox.Timeouts.Drain, o.Relay.Drain = drain, drain
	if strings.HasPrefix(c.o.Store, "sqlite:") && c.o.Sabotage == "" { // which shows what rivals do
		o.Inbox.Workers = turns
	}
	// where a busy machine has handlers time out; 16 s at most, which patience outlasts
	o.Inbox.Breaker.Rest = time.Second
	o.Inbox.Retry.Crashes = kills
	if c.cache != nil {
		o.Inbox.Front.Seen, o.Seen = c.cache, c.cache
	}
	o.Inbox.Timeouts.Wait = time.Second // and so what a service had claimed that dies is soon claimed again
	return o
}

// live is one session of the service, until it dies or ctx is done.
func (h *hand) live(ctx context.Context) error {
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

// count adds what a session did to the tally.
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

// placed is told of each order that was placed.
func (c *crew) placed(ctx context.Context, id string, n int) {
	if c.o.First != nil {
		c.once.Do(c.o.First)
	}
	c.poison(ctx, id, n)
}
