package order

import "slices"

// A State is how far an order has come.
type State string

// States, in the order in which an order can pass through them.
const (
	Pending    State = "pending"
	Paid       State = "paid"
	Reserved   State = "reserved"
	Shipped    State = "shipped"
	Confirmed  State = "confirmed"
	Cancelling State = "cancelling" // something failed, and not all that was done has been undone
	Cancelled  State = "cancelled"
)

// Ended tells whether nothing more can happen to the order.
func (s State) Ended() bool { return s == Confirmed || s == Cancelled }

// Why an order was cancelled.
const (
	PaymentDeclined = "payment_declined"
	OutOfStock      = "out_of_stock"
	ShippingFailed  = "shipping_failed"
	ByCustomer      = "cancelled_by_customer"
	GivenUp         = "given_up" // an operator turned its saga back
)

// Facts are what the other services have said about an order, and whether its customer wants it no more. They
// come by three topics, so in any order: an order's state follows from the set of its facts and not from the
// way they came.
type Facts struct {
	Taken, Declined, Refunded bool // Payment
	Reserved, Short, Released bool // Inventory
	Shipped, Failed           bool // Fulfilment
	Asked                     bool // the customer, to cancel; it was then that
	Stopped, Gone             bool // Fulfilment said one of these
	Changing                  bool // of a change of the order not all was said
	Changed                   bool // one was made, and is paid for
}

// ChangeFacts are what the other services have said about one change of an order. Each is refused in the end,
// and then undone at Payment, or it is paid and taken, as long as the order lives.
type ChangeFacts struct {
	Paid, Declined, Undone bool // Payment
	Taken, Refused         bool // Fulfilment
}

func (c ChangeFacts) stands() bool { return c.Paid && c.Taken && !c.Refused }
func (c ChangeFacts) void() bool   { return c.Refused && c.Undone }

// answer is what the customer is told.
func (c ChangeFacts) answer() string {
	switch {
	case c.Declined:
		return "declined"
	case c.Refused:
		return "refused"
	case c.Taken:
		return "taken"
	}
	return "asked"
}

// with is f and what is known of a change.
func (f Facts) with(c ChangeFacts) Facts {
	f.Changing = f.Changing || !c.stands() && !c.void()
	f.Changed = f.Changed || c.stands()
	return f
}

// outcome is how an order with these facts ends; "" as long as a fact of it is missing: an order is cancelled
// only when all that was done has been undone, its changes included.
func (f Facts) outcome() (State, string) {
	end, why := f.without().ending()
	if f.Changing || f.Changed && end == Cancelled {
		return "", ""
	}
	return end, why
}

// without is what is known of the order but for its changes.
func (f Facts) without() Facts {
	f.Changing, f.Changed = false, false
	return f
}

// ending is how an order ends that nobody changed. Each ending names all the facts that it is made of, so
// that nothing comes behind it.
func (f Facts) ending() (State, string) {
	switch f {
	case Facts{Taken: true, Reserved: true, Shipped: true}:
		return Confirmed, ""
	case Facts{Declined: true}:
		return Cancelled, PaymentDeclined
	case Facts{Taken: true, Short: true, Refunded: true}:
		return Cancelled, OutOfStock
	case Facts{Taken: true, Reserved: true, Failed: true, Released: true, Refunded: true}:
		return Cancelled, ShippingFailed
	// A cancellation that came too late changes nothing.
	case Facts{Asked: true, Gone: true, Taken: true, Reserved: true, Shipped: true}:
		return Confirmed, ""
	case Facts{Asked: true, Gone: true, Taken: true, Reserved: true, Failed: true, Released: true,
		Refunded: true}:
		return Cancelled, ShippingFailed
	// One in time stops the order wherever it was: what was not done yet is barred and answered with a "no".
	case Facts{Asked: true, Stopped: true, Declined: true},
		Facts{Asked: true, Stopped: true, Taken: true, Short: true, Refunded: true},
		Facts{Asked: true, Stopped: true, Taken: true, Reserved: true, Released: true, Refunded: true}:
		return Cancelled, ByCustomer
	}
	return "", ""
}

// reason is why an order with these facts is, or will be, cancelled; "" while it is not known.
func (f Facts) reason() string {
	switch {
	case f.Stopped:
		return ByCustomer
	case f.Declined:
		return PaymentDeclined
	case f.Short:
		return OutOfStock
	case f.Failed, f.Released:
		return ShippingFailed
	}
	return ""
}

// path is the states through which an order with these facts has come. A fact implies those that caused
// it, heard of or not: stock is reserved for what is paid, and shipped is what is reserved.
func (f Facts) path() []State {
	failed := f.Failed || f.Released
	reserved := f.Reserved || f.Shipped || f.Gone || failed
	paid := f.Taken || f.Short || f.Refunded || reserved
	out := []State{Pending}
	add := func(yes bool, s State) {
		if yes {
			out = append(out, s)
		}
	}
	end, _ := f.outcome()
	add(paid, Paid)
	add(reserved, Reserved)
	add(f.Shipped, Shipped)
	add(f.Short || f.Stopped || failed || f.Refunded || f.Declined && (f.Changing || f.Changed), Cancelling)
	add(end != "", end)
	return out
}

// next is the states that an order in state now enters when it has heard facts f.
func next(now State, f Facts) []State {
	if now.Ended() {
		return nil
	}
	rank := func(s State) int {
		return slices.Index([]State{Pending, Paid, Reserved, Shipped, Cancelling, Confirmed, Cancelled}, s)
	}
	var out []State
	for _, s := range f.path() {
		if rank(s) > rank(now) {
			out = append(out, s)
		}
	}
	return out
}
