package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/examples/shop/place"
)

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

// Own is a *exit.ForeignError if there is something in the databases that the run did not make.
func (g *playground[TTx]) Own(ctx context.Context) error {
	for _, name := range place.Names() {
		foreign, err := g.foreign(ctx, name)
		if err != nil {
			return fmt.Errorf("look at %s: %w", g.called(name), err)
		}
		if foreign != "" {
			return &cli.ForeignError{
				What:   "there is something in " + g.called(name) + " that the demo did not make: " + foreign,
				Remedy: "take it out; nothing is removed yet",
			}
		}
	}
	return nil
}

// Remove takes the databases away, Order's last.
func (g *playground[TTx]) Remove(ctx context.Context) (said string, err error) {
	for _, name := range slices.Backward(place.Names()) {
		if err := g.drop(ctx, name); err != nil {
			return "", fmt.Errorf("remove %s: %w; run it again", g.called(name), err)
		}
	}
	stays, err := g.clean()
	return strings.TrimSuffix("removed the demo at "+g.URL()+"; "+stays, "; "), err
}
