package order

import (
	"slices"
	"testing"
)

// fact is one thing that another service says, and by which topic.
type fact struct {
	kind, topic string
	set         func(*Facts)
}

func facts() map[string]fact {
	all := []fact{
		{"payment.taken", "payments", func(f *Facts) { f.Taken = true }},
		{"payment.declined", "payments", func(f *Facts) { f.Declined = true }},
		{"payment.refunded", "payments", func(f *Facts) { f.Refunded = true }},
		{"stock.reserved", "inventory", func(f *Facts) { f.Reserved = true }},
		{"stock.short", "inventory", func(f *Facts) { f.Short = true }},
		{"stock.released", "inventory", func(f *Facts) { f.Released = true }},
		{"parcel.shipped", "shipping", func(f *Facts) { f.Shipped = true }},
		{"parcel.failed", "shipping", func(f *Facts) { f.Failed = true }},
		{"parcel.stopped", "shipping", func(f *Facts) { f.Stopped = true }},
		{"parcel.gone", "shipping", func(f *Facts) { f.Gone = true }},
	}
	out := map[string]fact{}
	for _, f := range all {
		out[f.kind] = f
	}
	return out
}

// ending is one way in which an order can end: what is said about it, in the order of cause and effect.
type ending struct {
	asked  bool // the customer had asked to cancel before any of it was heard
	says   []string
	state  State
	reason string
}

func endings() []ending {
	return []ending{
		{false, []string{"payment.taken", "stock.reserved", "parcel.shipped"}, Confirmed, ""},
		{false, []string{"payment.declined"}, Cancelled, PaymentDeclined},
		{false, []string{"payment.taken", "stock.short", "payment.refunded"}, Cancelled, OutOfStock},
		{false, []string{"payment.taken", "stock.reserved", "parcel.failed", "stock.released", "payment.refunded"}, Cancelled, ShippingFailed},
		{true, []string{"payment.taken", "stock.reserved", "parcel.shipped", "parcel.gone"}, Confirmed, ""},
		{true, []string{"payment.taken", "stock.reserved", "parcel.failed", "stock.released", "payment.refunded", "parcel.gone"}, Cancelled, ShippingFailed},
		{true, []string{"parcel.stopped", "payment.declined"}, Cancelled, ByCustomer},
		{true, []string{"payment.taken", "parcel.stopped", "stock.short", "payment.refunded"}, Cancelled, ByCustomer},
		{true, []string{"payment.taken", "stock.reserved", "parcel.stopped", "stock.released", "payment.refunded"}, Cancelled, ByCustomer},
	}
}

// arrivals are all ways in which says can arrive: those of one topic keep their order, topics have none.
func arrivals(says []string) [][]string {
	if len(says) == 0 {
		return [][]string{nil}
	}
	var out [][]string
	seen := map[string]bool{}
	for i, s := range says {
		topic := facts()[s].topic
		if seen[topic] {
			continue
		}
		seen[topic] = true
		rest := slices.Delete(slices.Clone(says), i, i+1)
		for _, tail := range arrivals(rest) {
			out = append(out, append([]string{s}, tail...))
		}
	}
	return out
}

// Each way of arriving ends alike, once, with the last fact and not before.
func TestEveryArrival(t *testing.T) {
	total := 0
	for _, e := range endings() {
		for _, says := range arrivals(e.says) {
			total++
			now, f, history := Pending, Facts{Asked: e.asked}, []State{Pending}
			for i, s := range says {
				facts()[s].set(&f)
				for _, state := range next(now, f) {
					now, history = state, append(history, state)
				}
				if now.Ended() != (i == len(says)-1) {
					t.Errorf("%v: %s after %s", says, now, s)
				}
			}
			if now != e.state || f.reason() != e.reason {
				t.Errorf("%v ends %s %q, want %s %q", says, now, f.reason(), e.state, e.reason)
			}
			checkHistory(t, says, history)
		}
	}
	if total != 6+1+3+30+12+90+2+12+30 {
		t.Errorf("%d arrivals were tried", total)
	}
}

func checkHistory(t *testing.T, says []string, history []State) {
	t.Helper()
	for i, s := range history {
		if slices.Index(history, s) != i {
			t.Errorf("%v: %s twice in %v", says, s, history)
		}
		if s.Ended() && i != len(history)-1 {
			t.Errorf("%v: %v goes on after its end", says, history)
		}
		if i := slices.Index(history, Cancelling); i >= 0 && !slices.Contains(history[i:], Cancelled) {
			t.Errorf("%v: %v is not cancelled at last", says, history)
		}
	}
}

// The usual order of things leaves the history that one expects.
func TestHistoryInOrder(t *testing.T) {
	want := [][]State{
		{Pending, Paid, Reserved, Shipped, Confirmed},
		{Pending, Cancelled},
		{Pending, Paid, Cancelling, Cancelled},
		{Pending, Paid, Reserved, Cancelling, Cancelled},
		{Pending, Paid, Reserved, Shipped, Confirmed},
		{Pending, Paid, Reserved, Cancelling, Cancelled},
		{Pending, Cancelling, Cancelled},
		{Pending, Paid, Cancelling, Cancelled},
		{Pending, Paid, Reserved, Cancelling, Cancelled},
	}
	for i, e := range endings() {
		now, f, history := Pending, Facts{Asked: e.asked}, []State{Pending}
		for _, s := range e.says {
			facts()[s].set(&f)
			for _, state := range next(now, f) {
				now, history = state, append(history, state)
			}
		}
		if !slices.Equal(history, want[i]) {
			t.Errorf("%v: %v, want %v", e.says, history, want[i])
		}
	}
}

// Of all 2048 sets of facts, only those of the endings end an order: a contradiction never looks like an end.
func TestOnlyEndingsEnd(t *testing.T) {
	ends := 0
	for bits := range 2048 {
		f := Facts{bits&1 > 0, bits&2 > 0, bits&4 > 0, bits&8 > 0, bits&16 > 0, bits&32 > 0, bits&64 > 0, bits&128 > 0,
			bits&256 > 0, bits&512 > 0, bits&1024 > 0}
		if s, _ := f.outcome(); s != "" {
			ends++
			if f.path()[len(f.path())-1] != s {
				t.Errorf("%+v: path %v does not end %s", f, f.path(), s)
			}
		}
		if end := next(Confirmed, f); end != nil {
			t.Errorf("%+v moves a confirmed order to %v", f, end)
		}
	}
	if ends != len(endings()) {
		t.Errorf("%d sets of facts end an order, want %d", ends, len(endings()))
	}
}
