package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/skald-go/skald/cmd/skald/internal/demo/internal/bus"
	"github.com/skald-go/skald/cmd/skald/internal/exit"
	"github.com/skald-go/skald/examples/shop/place"
)

// Remove takes away what a run made: its groups and topics, then its databases, Order's last, which tells
// whose they are: killed at any moment and run again it ends. Nothing is touched before all of it is known to
// be the run's own and ask, which is told what there is, agrees. What it did is said in a line.
func Remove(ctx context.Context, o Options, ask func(what string) error) (said string, err error) {
	s, err := openSite(&o)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	book, e, err := find(ctx, s, &o)
	if err != nil {
		return "", err
	}
	if e == nil {
		return "there is no demo at " + s.url() + ": nothing to remove", s.sweep()
	}
	release, err := s.lock(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	if e, err = book.find(ctx); err != nil {
		return "", err
	}
	if e == nil {
		return "", errRemoved(s.url())
	}
	b, err := bus.Open(o.Broker)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	topics, err := b.Made(ctx, e.onBus())
	if err == nil {
		err = s.own(ctx)
	}
	if err == nil {
		err = ask(s.remains() + b.Remains(e.prefix))
	}
	if err == nil {
		err = b.Remove(ctx, e.prefix, topics)
	}
	if err != nil {
		return "", err
	}
	return s.remove(ctx)
}

// tables are those that a service makes beside Skald's, and those outside without any of Skald's.
func tables(service string) []string {
	all := map[string][]string{
		"order": {"demo_run", "prices", "orders", "order_items", "order_history", "receipts",
			"cancellations", "changes"},
		"payment":      {"accounts", "transfers", "entries", "payments"},
		"inventory":    {"stock", "reservations", "movements"},
		"fulfilment":   {"oversize", "parcels", "dispatches", "changes"},
		"notification": {"mails"},
		"analytics":    {"happenings", "payment_methods"},
		place.Bank:     {"gateway_funds", "gateway_moves", "gateway_memory"},
		place.Post:     {"mailbox"},
	}
	return append(all[service], "journal")
}

// own refuses databases with something in them that the run did not make.
func (g *ground[TTx]) own(ctx context.Context) error {
	for _, name := range place.Names() {
		foreign, err := g.foreign(ctx, name)
		if err != nil {
			return fmt.Errorf("look at %s: %w", g.called(name), err)
		}
		if foreign != "" {
			return &exit.ForeignError{
				What:   "there is something in " + g.called(name) + " that the demo did not make: " + foreign,
				Remedy: "take it out; nothing is removed yet",
			}
		}
	}
	return nil
}

// remove takes the databases away, Order's last.
func (g *ground[TTx]) remove(ctx context.Context) (said string, err error) {
	for _, name := range slices.Backward(place.Names()) {
		if err := g.drop(ctx, name); err != nil {
			return "", fmt.Errorf("remove %s: %w; run it again", g.called(name), err)
		}
	}
	stays, err := g.clean()
	return strings.TrimSuffix("removed the demo at "+g.url()+"; "+stays, "; "), err
}
