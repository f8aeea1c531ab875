// Package audit proves what the shop promises from the services' databases alone: it asks no service, no
// broker and no log. What it finds it says with the name of an order.
package audit

import (
	"context"
	"fmt"
	"strings"

	"github.com/skald-go/skald/examples/shop/table"
)

// Invariant is one promise of the shop and the auditor's verdict.
type Invariant struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Checked  int    `json:"checked"`            // number of things compared with the promise
	Detail   string `json:"detail"`             // the first five breaches, or a summary
	First    string `json:"first,omitempty"`    // the first breach
	Breaches int    `json:"breaches,omitempty"` // number of breaches
}

// Run reads the databases, which are named by their services: order, payment, inventory, fulfilment,
// notification and analytics; "gateway" and "mail" where these have their own. It holds for a shop that has
// come to rest: where work is under way, orders_ended and delivered_to_all say so. An error means that a
// database could not be read.
func Run(ctx context.Context, databases map[string]table.DB) ([]Invariant, error) {
	b, err := read(ctx, databases)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return []Invariant{
		b.moneyConserved(), b.chargedOnce(), b.movedOnce(), b.stockConserved(), b.shippedOnce(),
		b.ordersEnded(),
		b.deliveredToAll(), b.orderPerKey(), b.effectOnce(), b.mailedOnce(), b.postedOnce(),
	}, nil
}

// Brief returns the first breach and the number of the others, or the summary of a kept promise.
func (i *Invariant) Brief() string {
	switch i.Breaches {
	case 0:
		return i.Detail
	case 1:
		return i.First
	}
	return fmt.Sprintf("%s; and %d more", i.First, i.Breaches-1)
}

// OK tells whether all of invariants hold.
func OK(invariants []Invariant) bool {
	for _, i := range invariants {
		if !i.OK {
			return false
		}
	}
	return len(invariants) > 0
}

// findings collects what is wrong about one promise.
type findings struct {
	checked int
	wrong   []string
}

// hold counts one more thing, and says so if it is not ok.
func (f *findings) hold(ok bool, format string, args ...any) {
	f.checked++
	if !ok {
		f.wrong = append(f.wrong, fmt.Sprintf(format, args...))
	}
}

const maxTold = 5

func (f *findings) verdict(name, good string) Invariant {
	i := Invariant{Name: name, OK: len(f.wrong) == 0, Checked: f.checked, Detail: good}
	if !i.OK {
		i.First, i.Breaches = f.wrong[0], len(f.wrong)
		i.Detail = strings.Join(f.wrong[:min(len(f.wrong), maxTold)], "; ")
	}
	if more := len(f.wrong) - maxTold; more > 0 {
		i.Detail += fmt.Sprintf("; and %d more", more)
	}
	return i
}
