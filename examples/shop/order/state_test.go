package order

import (
	"slices"
	"strings"
	"testing"
)

// fact is a result of another service, and its topic.
type fact struct {
	kind, topic string
	set         func(*allFacts)
}

// allFacts has the facts about an order and about a change of it.
type allFacts struct {
	Facts
	c ChangeFacts
}

func facts() map[string]fact {
	all := []fact{
		{"payment.taken", "payments", func(f *allFacts) { f.Taken = true }},
		{"payment.declined", "payments", func(f *allFacts) { f.Declined = true }},
		{"payment.refunded", "payments", func(f *allFacts) { f.Refunded = true }},
		{"stock.reserved", "inventory", func(f *allFacts) { f.Reserved = true }},
		{"stock.short", "inventory", func(f *allFacts) { f.Short = true }},
		{"stock.released", "inventory", func(f *allFacts) { f.Released = true }},
		{"parcel.shipped", "shipping", func(f *allFacts) { f.Shipped = true }},
		{"parcel.failed", "shipping", func(f *allFacts) { f.Failed = true }},
		{"parcel.stopped", "shipping", func(f *allFacts) { f.Stopped = true }},
		{"parcel.gone", "shipping", func(f *allFacts) { f.Gone = true }},
		{"change.paid", "payments", func(f *allFacts) { f.c.Paid = true }},
		{"change.declined", "payments", func(f *allFacts) { f.c.Declined = true }},
		{"change.undone", "payments", func(f *allFacts) { f.c.Undone = true }},
		{"change.taken", "shipping", func(f *allFacts) { f.c.Taken = true }},
		{"change.refused", "shipping", func(f *allFacts) { f.c.Refused = true }},
	}
	out := map[string]fact{}
	for _, f := range all {
		out[f.kind] = f
	}
	return out
}

// ending is one way for an order to end: its facts, in causal order.
type ending struct {
	asked  bool // the customer had asked to cancel before
	says   []string
	state  State
	reason string
}

// after returns the facts after all messages, the states that the order passed, and the index of the
// message that ended it.
func (e ending) after(says []string) (f Facts, history []State, end int) {
	all := allFacts{Facts: Facts{Asked: e.asked}}
	changed := slices.ContainsFunc(e.says, func(s string) bool { return strings.HasPrefix(s, "change.") })
	now := Pending
	end = -1
	history = []State{now}
	for i, s := range says {
		facts()[s].set(&all)
		f = all.Facts
		if changed {
			f = f.with(all.c)
		}
		for _, state := range next(now, f) {
			now, history = state, append(history, state)
			if now.Ended() && end < 0 {
				end = i
			}
		}
	}
	return f, history, end
}

// aChange is one way for a change to end, and the customer's answer.
type aChange struct {
	says   []string
	answer string
	of     []State // possible ends of the order
}

func changes() []aChange {
	either := []State{Confirmed, Cancelled}
	return []aChange{
		{[]string{"change.paid", "change.taken"}, "taken", []State{Confirmed}},
		{[]string{"change.declined", "change.refused", "change.undone"}, "declined", either},
		{[]string{"change.paid", "change.refused", "change.undone"}, "refused", either},
		{[]string{"change.refused", "change.undone"}, "refused", either}, // it is never charged
		{[]string{"change.paid", "change.taken", "change.refused", "change.undone"}, "refused",
			[]State{Cancelled}},
	}
}

// changedEndings returns the endings of orders that were changed first.
func changedEndings() (out []ending) {
	for _, e := range endings() {
		for _, c := range changes() {
			if slices.Contains(c.of, e.state) {
				out = append(out, ending{e.asked, slices.Concat(e.says, c.says), e.state, e.reason})
			}
		}
	}
	return out
}

func endings() []ending {
	return []ending{
		{false, []string{"payment.taken", "stock.reserved", "parcel.shipped"}, Confirmed, ""},
		{false, []string{"payment.declined"}, Cancelled, PaymentDeclined},
		{false, []string{"payment.taken", "stock.short", "payment.refunded"}, Cancelled, OutOfStock},
		{false, []string{"payment.taken", "stock.reserved", "parcel.failed", "stock.released",
			"payment.refunded"}, Cancelled, ShippingFailed},
		{true, []string{"payment.taken", "stock.reserved", "parcel.shipped", "parcel.gone"}, Confirmed, ""},
		{true, []string{"payment.taken", "stock.reserved", "parcel.failed", "stock.released",
			"payment.refunded", "parcel.gone"}, Cancelled, ShippingFailed},
		{true, []string{"parcel.stopped", "payment.declined"}, Cancelled, ByCustomer},
		{true, []string{"payment.taken", "parcel.stopped", "stock.short", "payment.refunded"}, Cancelled,
			ByCustomer},
		{true, []string{"payment.taken", "stock.reserved", "parcel.stopped", "stock.released",
			"payment.refunded"}, Cancelled, ByCustomer},
	}
}

// arrivals returns all arrival orders of says: those of one topic keep their order.
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

// ways returns the number of arrival orders of says.
func ways(says []string) int {
	out, of := 1, map[string]int{}
	for i, s := range says {
		topic := facts()[s].topic
		of[topic]++
		out = out * (i + 1) / of[topic]
	}
	return out
}

// Every arrival order gives the same end, once, with the last fact and not before; also for an order with a
// change.
func TestEveryOrderOfArrival(t *testing.T) {
	for _, e := range append(endings(), changedEndings()...) {
		all := arrivals(e.says)
		if len(all) != ways(e.says) {
			t.Errorf("%v: %d arrivals were tried of %d", e.says, len(all), ways(e.says))
		}
		for _, says := range all {
			f, history, end := e.after(says)
			if now := history[len(history)-1]; now != e.state || f.reason() != e.reason ||
				end != len(says)-1 {
				t.Errorf("%v ends %s %q with fact %d, want %s %q", says, now, f.reason(), end,
					e.state, e.reason)
			}
			checkHistory(t, says, history)
		}
	}
}

// The answer about a change follows from all facts about it, and no change is both applied and reverted.
func TestAnswerToAChange(t *testing.T) {
	for _, change := range changes() {
		var all allFacts
		for _, s := range change.says {
			if c := all.c; c.applied() && change.answer == "taken" || c.reverted() {
				t.Errorf("%v: all is said before %s", change.says, s)
			}
			facts()[s].set(&all)
		}
		if c := all.c; c.answer() != change.answer || c.applied() != (change.answer == "taken") ||
			c.reverted() == c.applied() {
			t.Errorf("%v: %s, applied %t, reverted %t", change.says, c.answer(), c.applied(), c.reverted())
		}
	}
	if got := (ChangeFacts{Paid: true}).answer(); got != "asked" {
		t.Errorf("one that is paid, and not answered, is %s", got)
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

// The usual order of events gives the expected history.
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
		if _, history, _ := e.after(e.says); !slices.Equal(history, want[i]) {
			t.Errorf("%v: %v, want %v", e.says, history, want[i])
		}
	}
}

// Of all 8192 sets of facts, only the endings end an order, and those of a confirmed one that was changed.
// Contradictory facts never look like an end.
func TestOnlyEndingsEnd(t *testing.T) {
	want := len(endings())
	for _, e := range endings() {
		if e.state == Confirmed {
			want++
		}
	}
	ends := 0
	for bits := range 8192 {
		f := Facts{bits&1 > 0, bits&2 > 0, bits&4 > 0, bits&8 > 0, bits&16 > 0, bits&32 > 0, bits&64 > 0,
			bits&128 > 0,
			bits&256 > 0, bits&512 > 0, bits&1024 > 0, bits&2048 > 0, bits&4096 > 0}
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
	if ends != want {
		t.Errorf("%d sets of facts end an order, want %d", ends, want)
	}
}
