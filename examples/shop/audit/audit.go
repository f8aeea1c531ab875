// Package audit checks the guarantees of the shop by reading the databases of the services. It asks no
// service, broker or log. Each breach names its order.
package audit

import (
	"context"
	"fmt"
	"strings"

	"github.com/skald-go/skald/examples/shop/table"
)

// Invariant is one guarantee of the shop and the auditor's verdict.
type Invariant struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Checked  int    `json:"checked"`            // number of things checked
	Detail   string `json:"detail"`             // the first five breaches, or a summary
	First    string `json:"first,omitempty"`    // the first breach
	Breaches int    `json:"breaches,omitempty"` // number of breaches
}

// Run reads databases, which has a database for each service: order, payment, inventory, fulfilment,
// notification and analytics; also "gateway" and "mail" if these have their own. Run is meant for an idle
// shop: while work is in progress, orders_ended and delivered_to_all fail. It returns an error if it cannot
// read a database.
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

// Brief returns the first breach and the number of others, or the summary if there is no breach.
func (i *Invariant) Brief() string {
	switch i.Breaches {
	case 0:
		return i.Detail
	case 1:
		return i.First
	}
	return fmt.Sprintf("%s; and %d more", i.First, i.Breaches-1)
}

// OK reports whether all invariants hold. It is false for an empty list.
func OK(invariants []Invariant) bool {
	for _, i := range invariants {
		if !i.OK {
			return false
		}
	}
	return len(invariants) > 0
}

// findings collects the breaches of one invariant.
type findings struct {
	checked int
	wrong   []string
}

// hold counts one check and records a breach if ok is false.
func (f *findings) hold(ok bool, format string, args ...any) {
	f.checked++
	if !ok {
		f.wrong = append(f.wrong, fmt.Sprintf(format, args...))
	}
}

const maxDetails = 5

func (f *findings) verdict(name, good string) Invariant {
	i := Invariant{Name: name, OK: len(f.wrong) == 0, Checked: f.checked, Detail: good}
	if !i.OK {
		i.First, i.Breaches = f.wrong[0], len(f.wrong)
		i.Detail = strings.Join(f.wrong[:min(len(f.wrong), maxDetails)], "; ")
	}
	if more := len(f.wrong) - maxDetails; more > 0 {
		i.Detail += fmt.Sprintf("; and %d more", more)
	}
	return i
}
