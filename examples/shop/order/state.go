package order

import "slices"

// State is the progress of an order.
type State string

// States, in the order in which an order can pass through them.
const (
	Pending    State = "pending"
	Paid       State = "paid"
	Reserved   State = "reserved"
	Shipped    State = "shipped"
	Confirmed  State = "confirmed"
	Cancelling State = "cancelling" // something failed, and the undo is not complete
	Cancelled  State = "cancelled"
)

// Ended reports whether the order has ended.
func (s State) Ended() bool { return s == Confirmed || s == Cancelled }

// Reasons of a cancellation.
const (
	PaymentDeclined = "payment_declined"
	OutOfStock      = "out_of_stock"
	ShippingFailed  = "shipping_failed"
	ByCustomer      = "cancelled_by_customer"
	GivenUp         = "given_up" // an operator cancelled its saga
)

// Facts are the results of the other services about an order, and its customer's cancellation. They arrive
// on three topics in any order. So the state of an order follows from the set of facts, not from their
// sequence.
type Facts struct {
	Taken, Declined, Refunded bool // Payment
	Reserved, Short, Released bool // Inventory
	Shipped, Failed           bool // Fulfilment
	Asked                     bool // the customer asked to cancel before the end
	Stopped, Gone             bool // Fulfilment's answer to that
	Changing                  bool // a change of the order is not complete
	Changed                   bool // a change was made and paid
}

// ChangeFacts are the results of the other services about one change of an order. In the end a change is
// either refused and undone at Payment, or paid and taken. The failure of the order refuses a taken change.
type ChangeFacts struct {
	Paid, Declined, Undone bool // Payment
	Taken, Refused         bool // Fulfilment
}

func (c ChangeFacts) applied() bool  { return c.Paid && c.Taken && !c.Refused }
func (c ChangeFacts) reverted() bool { return c.Refused && c.Undone }

// answer returns the answer for the customer.
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

// with returns f with the facts of a change.
func (f Facts) with(c ChangeFacts) Facts {
	f.Changing = f.Changing || !c.applied() && !c.reverted()
	f.Changed = f.Changed || c.applied()
	return f
}

// outcome returns the end of an order with these facts; "" if facts are missing. An order is cancelled only
// after everything was undone, including its changes.
func (f Facts) outcome() (State, string) {
	end, why := f.without().ending()
	if f.Changing || f.Changed && end == Cancelled {
		return "", ""
	}
	return end, why
}

// without returns the facts without those of changes.
func (f Facts) without() Facts {
	f.Changing, f.Changed = false, false
	return f
}

// ending returns the end of an order without changes. Each ending lists all its facts, so that no fact
// arrives after it.
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
	// A cancellation that is too late changes nothing.
	case Facts{Asked: true, Gone: true, Taken: true, Reserved: true, Shipped: true}:
		return Confirmed, ""
	case Facts{Asked: true, Gone: true, Taken: true, Reserved: true, Failed: true, Released: true,
		Refunded: true}:
		return Cancelled, ShippingFailed
	// A cancellation in time stops the order: steps that come later are barred and answered with a refusal.
	case Facts{Asked: true, Stopped: true, Declined: true},
		Facts{Asked: true, Stopped: true, Taken: true, Short: true, Refunded: true},
		Facts{Asked: true, Stopped: true, Taken: true, Reserved: true, Released: true, Refunded: true}:
		return Cancelled, ByCustomer
	}
	return "", ""
}

// reason returns why an order with these facts is or will be cancelled; "" if unknown.
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

// path returns the states that an order with these facts has passed. A fact implies the facts that caused
// it, received or not: reserved implies paid, and shipped implies reserved.
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

// next returns the states that an order in state now enters with facts f.
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
