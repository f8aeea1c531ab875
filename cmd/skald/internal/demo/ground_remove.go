package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/examples/shop/place"
)

// tables returns the tables of a service, without Skald's own tables.
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

// Own returns a *cli.ForeignError if the databases have objects that the run did not create.
func (g *playground[TTx]) Own(ctx context.Context) error {
	for _, name := range place.Names() {
		foreign, err := g.foreign(ctx, name)
		if err != nil {
			return fmt.Errorf("read %s: %w", g.called(name), err)
		}
		if foreign != "" {
			return &cli.ForeignError{
				What:   "the demo did not create these objects in " + g.called(name) + ": " + foreign,
				Remedy: "move them elsewhere; nothing is removed yet",
			}
		}
	}
	return nil
}

// Remove removes the databases, Order's last.
func (g *playground[TTx]) Remove(ctx context.Context) (said string, err error) {
	for _, name := range slices.Backward(place.Names()) {
		if err := g.drop(ctx, name); err != nil {
			return "", fmt.Errorf("remove %s: %w; run it again", g.called(name), err)
		}
	}
	stays, err := g.clean()
	return strings.TrimSuffix("removed the demo at "+g.URL()+"; "+stays, "; "), err
}
