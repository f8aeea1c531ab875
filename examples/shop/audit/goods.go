package audit

import (
	"fmt"
	"maps"
	"slices"
)

// moneyConserved checks that the entries of each transfer balance, and that each account balance matches
// its entries.
func (b *books) moneyConserved() Invariant {
	var f findings
	sum, paid, ledger := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, e := range b.entries {
		sum[e.transfer] += e.cents
		paid[e.transfer] += max(e.cents, 0)
		ledger[e.account] += e.cents
	}
	for _, t := range b.transfers {
		f.hold(sum[t.id] == 0 && paid[t.id] == t.cents,
			"order %s: the entries of %s %s add up to %d cents, %d moved of %d",
			t.order, t.kind, t.id, sum[t.id], paid[t.id], t.cents)
	}
	for _, a := range b.accounts {
		f.hold(a.balance == ledger[a.id], "account %s has %d cents, its entries say %d", a.id, a.balance,
			ledger[a.id])
	}
	return f.verdict("money_conserved", fmt.Sprintf("%d transfers between %d accounts", len(b.transfers),
		len(b.accounts)))
}

// bill counts how often one amount of an order was requested, charged and refunded. The amount is the
// price of the order or the fee of a change.
type bill struct {
	asked, kept       int // kept: requests that remain paid if the order is confirmed
	charged, refunded int
}

// bills returns the bills of each order by their cents.
func (b *books) bills() map[string]map[int64]*bill {
	out := map[string]map[int64]*bill{}
	at := func(order string, cents int64) *bill {
		if out[order] == nil {
			out[order] = map[int64]*bill{}
		}
		if out[order][cents] == nil {
			out[order][cents] = &bill{}
		}
		return out[order][cents]
	}
	for _, o := range b.orders {
		of := at(o.id, o.cents)
		of.asked, of.kept = of.asked+1, of.kept+1
	}
	for _, c := range b.changes {
		of := at(c.order, c.fee)
		of.asked++
		if c.applied() {
			of.kept++
		}
	}
	for _, t := range b.transfers {
		switch t.kind {
		case "charge":
			at(t.order, t.cents).charged++
		case "refund":
			at(t.order, t.cents).refunded++
		}
	}
	return out
}

// chargedOnce checks that no order and no change is charged twice. A confirmed order is charged, and so are
// its applied changes. A cancelled order is not charged, or everything was refunded.
func (b *books) chargedOnce() Invariant {
	var f findings
	all, charged, back := b.bills(), 0, 0
	for _, o := range b.orders {
		ok, counts := true, ""
		for _, cents := range slices.Sorted(maps.Keys(all[o.id])) {
			n := all[o.id][cents]
			charged, back = charged+n.charged, back+n.refunded
			good := n.charged <= n.asked && n.refunded <= n.charged
			switch o.state {
			case "confirmed":
				good = good && n.charged-n.refunded == n.kept
			case "cancelled":
				good = good && n.charged == n.refunded
			}
			ok = ok && good
			counts += fmt.Sprintf("; %d cents: asked for %d times, charged %d times and refunded %d times",
				cents, n.asked, n.charged, n.refunded)
		}
		f.hold(ok, "order %s is %s%s", o.id, o.state, counts)
		delete(all, o.id)
	}
	for id, bills := range all {
		f.hold(false, "order %s does not exist, and %d things were charged for it", id, len(bills))
	}
	return f.verdict("charged_once", fmt.Sprintf("%d charges of %d orders and %d changes, %d refunds",
		charged, len(b.orders), len(b.changes), back))
}

// movedOnce checks that the ledger of the gateway matches the ledger of Payment, and that no key was used
// for two moves.
func (b *books) movedOnce() Invariant {
	var f findings
	type of struct {
		kind, order string
		cents       int64
	}
	outside, ours, keys := map[of]int{}, map[of]int{}, map[string]int{}
	for _, t := range b.moves {
		outside[of{t.kind, t.order, t.cents}]++
		keys[t.key]++
		f.hold(keys[t.key] == 1,
			"order %s: the gateway made a %s of %d cents under key %s, which was used before", t.order,
			t.kind, t.cents, t.key)
	}
	for _, t := range b.transfers {
		if t.kind != "deposit" {
			ours[of{t.kind, t.order, t.cents}]++
		}
	}
	for t, n := range outside {
		f.hold(n == ours[t] && b.byID[t.order] != nil,
			"order %s: the gateway made %d times a %s of %d cents, we know of %d", t.order, n, t.kind,
			t.cents, ours[t])
	}
	for t, n := range ours {
		f.hold(outside[t] > 0, "order %s: we know of %d times a %s of %d cents, the gateway of none", t.order,
			n, t.kind, t.cents)
	}
	slices.Sort(f.wrong)
	return f.verdict("moved_once", fmt.Sprintf("%d moves at the gateway", len(b.moves)))
}

// stockConserved checks that the reserved stock equals the items that orders hold. An order holds all its
// items, or none if it is cancelled or they are not reserved yet.
func (b *books) stockConserved() Invariant {
	var f findings
	held, aside := map[string]map[string]int64{}, map[string]int64{}
	for _, m := range b.movements {
		aside[m.sku] += m.quantity
		if m.quantity == 0 {
			continue
		}
		if held[m.order] == nil {
			held[m.order] = map[string]int64{}
		}
		held[m.order][m.sku] = m.quantity
	}
	for _, s := range b.stock {
		f.hold(s.available+s.reserved == s.delivered && s.available >= 0 && s.reserved == aside[s.sku],
			"%s: %d available and %d reserved of %d, orders hold %d", s.sku, s.available, s.reserved,
			s.delivered, aside[s.sku])
	}
	for _, o := range b.orders {
		h := held[o.id]
		delete(held, o.id)
		all, none := maps.Equal(h, o.items), len(h) == 0
		ok := all || none
		switch o.state {
		case "confirmed":
			ok = all
		case "cancelled":
			ok = none
		}
		f.hold(ok, "order %s is %s: it holds %v of %v", o.id, o.state, h, o.items)
	}
	for id, h := range held {
		f.hold(false, "order %s: it holds %v and does not exist", id, h)
	}
	return f.verdict("stock_conserved", fmt.Sprintf("%d SKUs, %d orders", len(b.stock), len(b.orders)))
}

// ordersEnded checks that every order is confirmed or cancelled, and that all its change and cancel
// requests are answered.
func (b *books) ordersEnded() Invariant {
	var f findings
	states := map[string]int{}
	for _, o := range b.orders {
		states[o.state]++
		f.hold(o.ended(), "order %s is still %s", o.id, o.state)
	}
	for id, answer := range b.cancellations {
		f.hold(answer != "", "order %s: the cancel request has no answer", id)
	}
	for _, c := range b.changes {
		f.hold(c.applied() || c.reverted(), "order %s: its change to %s is not complete",
			c.order, c.address)
	}
	b.sagasEnded(&f)
	return f.verdict("orders_ended", fmt.Sprintf("%d confirmed, %d cancelled", states["confirmed"],
		states["cancelled"]))
}
