package service_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/sample"
)

func change(o event.Order, number int64, to string) event.Change {
	return event.Change{Order: o, Number: number, Address: to, Fee: 250}
}

// An order is charged again for each of its changes by the same step: each charge happens once, with its
// own key at the gateway.
func TestPaymentChargesEachChange(t *testing.T) {
	r := newRig(t, "payment")
	before, o := r.num(balance, "ada"), tea("o1", "ada", 2)
	r.deliver(2, r.ev.OrderPlaced.New("o1", o))
	r.deliver(3, r.ev.ChangeAsked.New("o1", change(o, 1, "here")))
	r.deliver(3, r.ev.ChangeAsked.New("o1", change(o, 2, "there")))
	r.deliver(1, r.ev.ChangeAsked.New("o1", change(o, 2, "there"))) // repeated with another id
	r.want(before-980-2*250, balance, "ada")
	r.want(3, charges)
	for _, key := range []string{"charge-o1", "charge-o1-1", "charge-o1-2"} {
		r.want(1, "SELECT COUNT(*) FROM gateway_moves WHERE key = $1", key)
	}
	r.want(3,
		"SELECT COUNT(*) FROM skald_steps WHERE saga = 'o1' AND step = 'charge' AND occurrence IN ('', '1', '2') AND state = 'done'")
	r.want(3, notes)
	r.wantSent("payment.taken o1", "change.paid o1", "change.paid o1")
}

// A change that cannot be paid leaves the order as it was. The refusal is answered, and nothing is
// refunded.
func TestPaymentDeclinesAChange(t *testing.T) {
	r := newRig(t, "payment")
	o := event.Order{ID: "o1", Customer: sample.Student, Cents: 9_900}
	r.deliver(1, r.ev.OrderPlaced.New("o1", o))
	r.deliver(2, r.ev.ChangeAsked.New("o1", change(o, 1, "here")))
	r.deliver(2, r.ev.ChangeRefused.New("o1", change(o, 1, "here")))
	r.want(100, balance, sample.Student)
	r.want(1, charges)
	r.want(0, refunds)
	r.want(1, "SELECT COUNT(*) FROM gateway_moves")
	r.want(1, "SELECT COUNT(*) FROM skald_mark WHERE outcome = 2 AND reason = 'not enough money'")
	r.wantSent("payment.taken o1", "change.declined o1", "change.undone o1")
}

// A changed order is cancelled: each of the two charges is undone or barred, in any order of messages, one
// after another or all at once.
func TestPaymentUndoesBothChargesInAnyOrder(t *testing.T) {
	for _, together := range []bool{false, true} {
		t.Run(fmt.Sprint("together ", together), func(t *testing.T) {
			r := newRig(t, "payment")
			before := r.num(balance, "ada")
			all := permutations([]string{"placed", "asked", "stopped", "refused"})
			draft := func(what string, o event.Order) skald.Draft {
				switch what {
				case "placed":
					return r.ev.OrderPlaced.New(o.ID, o)
				case "asked":
					return r.ev.ChangeAsked.New(o.ID, change(o, 1, "here"))
				case "stopped":
					return r.ev.ParcelStopped.New(o.ID, about(o))
				}
				return r.ev.ChangeRefused.New(o.ID, change(o, 1, "here"))
			}
			for k := range all[0] {
				for i, says := range all {
					r.publish(2, draft(says[k], tea(fmt.Sprint("o", i), "ada", 1)))
				}
				if !together {
					quiet(t, r.svc.Inbox)
				}
			}
			quiet(t, r.svc.Inbox)
			for i, says := range all {
				id := fmt.Sprint("o", i)
				for _, from := range []string{"transfers", "gateway_moves"} {
					const of = " WHERE order_id = $1 AND cents = $2 AND kind = 'charge'"
					for cents, early := range map[int64]bool{490: early(says, "placed", "stopped"),
						250: early(says, "asked", "refused")} {
						n := r.num("SELECT COUNT(*) FROM "+from+of, id, cents)
						if !together && (n == 1) != early || n > 1 {
							t.Errorf("%v: %d charges of %d cents in %s", says, n, cents, from)
						}
						r.want(n, "SELECT COUNT(*) FROM "+from+
							" WHERE order_id = $1 AND cents = $2 AND kind = 'refund'", id, cents)
					}
				}
				r.want(2,
					"SELECT COUNT(*) FROM skald_steps WHERE saga = $1 AND state IN ('undone', 'barred')", id)
				r.want(1, "SELECT COUNT(*) FROM skald_outbox WHERE key = $1 AND type = 'change.undone'", id)
				r.want(1,
					"SELECT COUNT(*) FROM skald_outbox WHERE key = $1 AND type IN ('payment.refunded', 'payment.declined')", id)
			}
			r.want(before, balance, "ada")
			r.want(0, left)
			if !together {
				// in each pair, half come too late
				r.want(int64(len(all)), "SELECT COUNT(*) FROM skald_keys WHERE status = 'barred'")
			}
		})
	}
}

func early(says []string, one, than string) bool {
	return slices.Index(says, one) < slices.Index(says, than)
}

// A change is requested while its order fails: in any order of messages at Fulfilment it is answered once,
// and no parcel leaves.
func TestFulfilmentRefusesChangesOfAFailedOrder(t *testing.T) {
	r := newRig(t, "fulfilment")
	heavy := func(id string) event.Order {
		return event.Order{ID: id, Customer: "ada", Items: []event.Item{{SKU: sample.Heavy, Quantity: 1}}}
	}
	fails := map[string]func(o event.Order) skald.Draft{
		"declined": func(o event.Order) skald.Draft { return r.ev.PaymentDeclined.New(o.ID, about(o)) },
		"short":    func(o event.Order) skald.Draft { return r.ev.StockShort.New(o.ID, about(o)) },
		"stopped":  func(o event.Order) skald.Draft { return r.ev.CancelAsked.New(o.ID, about(o)) },
		"failed":   func(o event.Order) skald.Draft { return r.ev.StockReserved.New(o.ID, about(o)) },
	}
	n := 0
	for why, fail := range fails {
		for _, says := range permutations([]string{"asked", "paid", why}) {
			n++
			o := heavy(fmt.Sprint(why, n))
			for _, what := range says {
				switch what {
				case "asked":
					r.deliver(2, r.ev.ChangeAsked.New(o.ID, change(o, 1, "here")))
				case "paid":
					r.deliver(2, r.ev.ChangePaid.New(o.ID, change(o, 1, "here")))
				default:
					r.deliver(2, fail(o))
				}
			}
			r.want(1, "SELECT COUNT(*) FROM skald_outbox WHERE key = $1 AND type = 'change.refused'", o.ID)
			taken := int64(0)
			if early(says, "paid", why) || why == "failed" && says[0] == "asked" {
				// the goods wait for the payment
				taken = 1
			}
			r.want(taken, "SELECT COUNT(*) FROM skald_outbox WHERE key = $1 AND type = 'change.taken'", o.ID)
			r.want(1, "SELECT COUNT(*) FROM changes WHERE order_id = $1 AND state = 'refused'", o.ID)
		}
	}
	r.want(6, "SELECT COUNT(*) FROM parcels")
	o := heavy("unpaid")
	r.deliver(2, r.ev.ChangeDeclined.New(o.ID, change(o, 1, "here")))
	r.deliver(2, r.ev.ChangeAsked.New(o.ID, change(o, 1, "here")))
	r.want(1, "SELECT COUNT(*) FROM skald_outbox WHERE key = 'unpaid' AND type = 'change.refused'")
	r.want(1, "SELECT COUNT(*) FROM dispatches WHERE order_id = 'unpaid' AND state = 'open' AND address = ''")
}

// A change is requested and paid while its order ships: in any order of messages at Fulfilment it is
// answered once, and the parcel goes to the answered address.
func TestFulfilmentAnswersAChangeOfAShippingOrderOnce(t *testing.T) {
	r := newRig(t, "fulfilment")
	for n, says := range permutations([]string{"asked", "paid", "reserved"}) {
		o := tea(fmt.Sprint("o", n), "ada", 1)
		for _, what := range says {
			switch what {
			case "asked":
				r.deliver(2, r.ev.ChangeAsked.New(o.ID, change(o, 1, "there")))
			case "paid":
				r.deliver(2, r.ev.ChangePaid.New(o.ID, change(o, 1, "there")))
			default:
				r.deliver(2, r.ev.StockReserved.New(o.ID, about(o)))
			}
		}
		taken := int64(1)
		if says[0] == "reserved" {
			taken = 0
		}
		r.want(taken, "SELECT COUNT(*) FROM skald_outbox WHERE key = $1 AND type = 'change.taken'", o.ID)
		r.want(1-taken, "SELECT COUNT(*) FROM skald_outbox WHERE key = $1 AND type = 'change.refused'", o.ID)
		r.want(taken,
			"SELECT COUNT(*) FROM dispatches WHERE order_id = $1 AND state = 'gone' AND number = 1 AND address = 'there'", o.ID)
		r.want(1, "SELECT COUNT(*) FROM parcels WHERE order_id = $1 AND state = 'shipped'", o.ID)
	}
}
