package audit

import (
	"fmt"

	"github.com/skald-go/skald/examples/shop/table"
)

type change struct {
	order, address               string
	number, fee                  int64
	paid, taken, refused, undone bool
}

// applied reports whether the change was applied and paid.
func (c change) applied() bool { return c.paid && c.taken && !c.refused }

// reverted reports whether the change was refused and is not paid.
func (c change) reverted() bool { return c.refused && c.undone }

type dispatch struct {
	order, state, address string
	number                int64
}

func (b *books) readParcels(r *reader) {
	r.each("order", "Cancellations", func(row table.Row) error {
		var id, answer string
		err := row.Scan(&id, &answer)
		b.cancellations[id] = answer
		return err
	})
	r.each("order", "Changes", func(row table.Row) error {
		var c change
		defer func() { b.changes = append(b.changes, c) }()
		return row.Scan(&c.order, &c.number, &c.address, &c.fee, &c.paid, &c.taken, &c.refused, &c.undone)
	})
	r.each("fulfilment", "Dispatches", func(row table.Row) error {
		var d dispatch
		err := row.Scan(&d.order, &d.state, &d.number, &d.address)
		b.dispatches[d.order] = d
		return err
	})
	r.each("fulfilment", "Parcels", func(row table.Row) error {
		var id, state string
		var n int
		err := row.Scan(&id, &state, &n)
		b.parcels[parcel{id, state}] = n
		return err
	})
}

type parcel struct{ order, state string }

// shippedOnce checks that one parcel left for each confirmed order, and none for others. It goes to the
// last address that the customer paid for. A stopped parcel must not have left.
func (b *books) shippedOnce() Invariant {
	var f findings
	left := 0
	for _, o := range b.orders {
		shipped, failed := b.parcels[parcel{o.id, "shipped"}], b.parcels[parcel{o.id, "failed"}]
		left += shipped
		ok := shipped+failed <= 1
		switch o.state {
		case "confirmed":
			ok = ok && shipped == 1
		case "cancelled":
			ok = ok && shipped == 0
		}
		f.hold(ok, "order %s is %s: %d parcels left, the carrier refused %d", o.id, o.state, shipped, failed)
		answer, d := b.cancellations[o.id], b.dispatches[o.id]
		f.hold(answer == "" || answer == d.state &&
			(answer != "stopped" || shipped+failed == 0 && o.state != "confirmed"),
			"order %s is %s: its customer was told %q of the cancellation, the parcel is %s", o.id, o.state,
			answer, d.state)
	}
	last := map[string]change{}
	for _, c := range b.changes { // by number
		if c.applied() {
			last[c.order] = c
		}
	}
	for _, o := range b.orders {
		c, d := last[o.id], b.dispatches[o.id]
		f.hold(d.number == c.number && d.address == c.address || d.number > c.number &&
			o.state != "confirmed",
			"order %s is %s: its customer was told, and has paid for it, that it goes to %q, it goes to %q",
			o.id, o.state, c.address, d.address)
	}
	return f.verdict("shipped_once", fmt.Sprintf("%d parcels, %d cancellations, %d other addresses", left,
		len(b.cancellations), len(b.changes)))
}
