package service_test

import (
	"slices"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/sample"
	"github.com/skald-go/skald/examples/shop/service"
)

func tea(id, customer string, quantity int64) event.Order {
	return event.Order{ID: id, Customer: customer,
		Items: []event.Item{{SKU: "tea", Quantity: quantity, Cents: 490}}, Cents: quantity * 490}
}

func about(o event.Order) event.Verdict { return event.Verdict{Order: o} }

func (r *rig) wantSent(want ...string) {
	r.t.Helper()
	if got := r.sent(); !slices.Equal(got, want) {
		r.t.Errorf("sent %q, want %q", got, want)
	}
}

const (
	marks   = "SELECT COUNT(*) FROM skald_mark"
	notes   = "SELECT COUNT(*) FROM journal"
	balance = "SELECT balance FROM accounts WHERE id = $1"
)

func TestPaymentTakesOnce(t *testing.T) {
	r := newRig(t, "payment")
	before := r.num(balance, "ada")
	r.deliver(3, r.ev.OrderPlaced.New("o1", tea("o1", "ada", 2)))
	r.want(before-980, balance, "ada")
	r.want(980, "SELECT SUM(cents) FROM entries WHERE account = 'shop'")
	r.want(1, "SELECT COUNT(*) FROM transfers WHERE order_id = 'o1' AND kind = 'charge'")
	r.want(1, notes)
	r.wantSent("payment.taken o1")
}

func TestPaymentDeclines(t *testing.T) {
	for name, o := range map[string]event.Order{
		"no money":   tea("o1", sample.Poor, 1),
		"no account": tea("o1", "nobody", 1),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "payment")
			r.deliver(2, r.ev.OrderPlaced.New("o1", o))
			r.wantSent("payment.declined o1")
			r.want(0, "SELECT COUNT(*) FROM payments")
			r.want(0, "SELECT COUNT(*) FROM transfers WHERE order_id <> ''")
			r.want(0, notes)
			r.want(1, "SELECT COUNT(*) FROM skald_mark WHERE outcome = 2 AND reason = 'not enough money'")
		})
	}
}

// The balance of an account never falls below 0, however many charges arrive at once.
func TestPaymentUpToTheLastCent(t *testing.T) {
	r := newRig(t, "payment")
	order := func(id string, cents int64) event.Order {
		return event.Order{ID: id, Customer: sample.Student, Cents: cents}
	}
	r.deliver(1, r.ev.OrderPlaced.New("o1", order("o1", 9_999)))
	r.deliver(1, r.ev.OrderPlaced.New("o2", order("o2", 2)))
	r.deliver(1, r.ev.OrderPlaced.New("o3", order("o3", 1)))
	r.want(0, balance, sample.Student)
	r.wantSent("payment.taken o1", "payment.declined o2", "payment.taken o3")
}

func TestPaymentRefundsOnce(t *testing.T) {
	for _, why := range []string{event.StockShort, event.ParcelFailed, event.ParcelStopped} {
		t.Run(why, func(t *testing.T) {
			r := newRig(t, "payment")
			before, o := r.num(balance, "ada"), tea("o1", "ada", 2)
			undo := map[string]skald.Event[event.Verdict]{
				event.StockShort: r.ev.StockShort, event.ParcelFailed: r.ev.ParcelFailed,
				event.ParcelStopped: r.ev.ParcelStopped,
			}[why]
			r.deliver(1, r.ev.OrderPlaced.New("o1", o))
			r.deliver(2, undo.New("o1", about(o)))
			r.deliver(1, undo.New("o1", about(o))) // repeated with another id
			r.want(before, balance, "ada")
			r.want(0, "SELECT SUM(cents) FROM entries WHERE account = 'shop'")
			r.want(1, "SELECT COUNT(*) FROM transfers WHERE kind = 'refund'")
			r.wantSent("payment.taken o1", "payment.refunded o1")
		})
	}
}

// A mark does not mean that the step took effect: a declined payment has a mark, and nothing to refund.
func TestPaymentRefundsOnlyItsCharges(t *testing.T) {
	r := newRig(t, "payment")
	o := tea("o1", sample.Poor, 1)
	r.deliver(1, r.ev.OrderPlaced.New("o1", o))
	r.deliver(1, r.ev.StockShort.New("o1", about(o)))
	r.want(2, marks)
	r.want(0, balance, sample.Poor)
	r.want(0, "SELECT COUNT(*) FROM transfers WHERE order_id <> ''")
	r.wantSent("payment.declined o1")
}

// A refund that arrives first bars the payment.
func TestPaymentThatIsUndoneFirstIsBarred(t *testing.T) {
	r := newRig(t, "payment")
	before, o := r.num(balance, "ada"), tea("o1", "ada", 1)
	r.deliver(1, r.ev.ParcelStopped.New("o1", about(o)))
	r.deliver(1, r.ev.OrderPlaced.New("o1", o))
	r.deliver(1, r.ev.StockShort.New("o1", about(o)))
	r.want(before, balance, "ada")
	r.want(0, "SELECT COUNT(*) FROM transfers WHERE order_id <> ''")
	r.wantSent("payment.declined o1")
}

// Together with a build without steps: payments that it took are not taken again and are refunded once;
// payments that it refunded are not refunded again.
func TestPaymentWithABuildWithoutSteps(t *testing.T) {
	db, at := home(t, "payment")
	r := rigAt(t, "payment", db, at, &service.Options{Older: true})
	theirs, ours := tea("theirs", "ada", 1), tea("ours", "ada", 1)
	r.exec("INSERT INTO payments (order_id, state) VALUES ('theirs', 'taken')")
	r.deliver(1, r.ev.OrderPlaced.New("theirs", theirs))
	r.want(0, charges)
	r.deliver(1, r.ev.StockShort.New("theirs", about(theirs)))
	r.deliver(1, r.ev.ParcelStopped.New("theirs", about(theirs)))
	r.want(1, "SELECT COUNT(*) FROM payments WHERE order_id = 'theirs' AND state = 'refunded'")
	r.deliver(1, r.ev.OrderPlaced.New("ours", ours))
	r.want(1, "SELECT COUNT(*) FROM payments WHERE order_id = 'ours' AND state = 'taken'")
	r.exec("UPDATE payments SET state = 'refunded' WHERE order_id = 'ours'")
	r.deliver(1, r.ev.ParcelStopped.New("ours", about(ours)))
	r.want(1, refunds)
	r.wantSent("payment.refunded theirs", "payment.taken ours")
}

// The same for goods.
func TestInventoryWithABuildWithoutSteps(t *testing.T) {
	db, at := home(t, "inventory")
	r := rigAt(t, "inventory", db, at, &service.Options{Older: true})
	theirs, ours := basket("theirs", map[string]int64{"tea": 2}), basket("ours", map[string]int64{"tea": 3})
	r.exec("INSERT INTO reservations (order_id, state) VALUES ('theirs', 'reserved')")
	r.exec("UPDATE stock SET available = available - 2, reserved = 2 WHERE sku = 'tea'")
	r.deliver(1, r.ev.PaymentTaken.New("theirs", about(theirs)))
	r.want(2, stock, "tea")
	r.deliver(1, r.ev.ParcelFailed.New("theirs", about(theirs)))
	r.deliver(1, r.ev.ParcelStopped.New("theirs", about(theirs)))
	r.want(0, stock, "tea")
	r.deliver(1, r.ev.PaymentTaken.New("ours", about(ours)))
	r.exec("UPDATE reservations SET state = 'released' WHERE order_id = 'ours'")
	r.deliver(1, r.ev.ParcelStopped.New("ours", about(ours)))
	r.want(3, stock, "tea")
	r.wantSent("stock.released theirs", "stock.reserved ours")
}

func basket(id string, of map[string]int64) event.Order {
	o := event.Order{ID: id, Customer: "ada"}
	for sku, n := range of {
		o.Items = append(o.Items, event.Item{SKU: sku, Quantity: n, Cents: 1})
	}
	return o
}

const stock = "SELECT reserved FROM stock WHERE sku = $1"

func TestInventoryReservesAllOrNothing(t *testing.T) {
	r := newRig(t, "inventory")
	o := tea("o1", "ada", 2)
	// tea twice
	o.Items = append(o.Items, event.Item{SKU: "mug", Quantity: 1}, event.Item{SKU: "tea", Quantity: 3})
	r.deliver(3, r.ev.PaymentTaken.New("o1", about(o)))
	r.want(5, stock, "tea")
	r.want(1, stock, "mug")
	r.deliver(2, r.ev.PaymentTaken.New("o2",
		about(basket("o2", map[string]int64{"tea": 1, "mug": 1, sample.Sold: 1}))))
	r.deliver(1, r.ev.PaymentTaken.New("o3", about(basket("o3", map[string]int64{"unheard of": 1}))))
	r.want(5, stock, "tea")
	r.want(1, stock, "mug")
	r.want(1, "SELECT COUNT(*) FROM reservations")
	r.want(1, "SELECT COUNT(*) FROM skald_mark WHERE outcome = 2 AND reason = 'samovar: out of stock'")
	r.wantSent("stock.reserved o1", "stock.short o2", "stock.short o3")
}

func TestInventoryUpToTheLastPiece(t *testing.T) {
	r := newRig(t, "inventory")
	for _, c := range []struct {
		id string
		n  int64
	}{{"o1", 19}, {"o2", 2}, {"o3", 1}, {"o4", 1}} {
		r.deliver(1, r.ev.PaymentTaken.New(c.id, about(basket(c.id, map[string]int64{sample.Rare: c.n}))))
	}
	r.want(20, stock, sample.Rare)
	r.wantSent("stock.reserved o1", "stock.short o2", "stock.reserved o3", "stock.short o4")
}

func TestInventoryReleasesWhatItReserved(t *testing.T) {
	r := newRig(t, "inventory")
	o := basket("o1", map[string]int64{"tea": 2, "mug": 1})
	r.deliver(1, r.ev.PaymentTaken.New("o1", about(o)))
	r.deliver(2, r.ev.ParcelFailed.New("o1", about(o)))
	r.deliver(1, r.ev.ParcelFailed.New("o1", about(o)))
	r.want(0, stock, "tea")
	r.want(0, stock, "mug")
	r.want(0, "SELECT SUM(quantity) FROM movements")
	r.wantSent("stock.reserved o1", "stock.released o1")
}

// Only reserved goods are released: nothing for an order that was short or unknown.
func TestInventoryReleasesNothingElse(t *testing.T) {
	r := newRig(t, "inventory")
	short, late := basket("o1", map[string]int64{"tea": 1, sample.Sold: 1}),
		basket("o2", map[string]int64{"tea": 1})
	r.deliver(1, r.ev.PaymentTaken.New("o1", about(short)))
	r.deliver(1, r.ev.ParcelFailed.New("o1", about(short)))
	r.deliver(1, r.ev.ParcelStopped.New("o2", about(late)))
	r.deliver(1, r.ev.PaymentTaken.New("o2", about(late)))
	r.want(0, stock, "tea")
	r.want(0, "SELECT COUNT(*) FROM movements")
	r.want(0, "SELECT COUNT(*) FROM stock WHERE available + reserved <> delivered")
	r.wantSent("stock.short o1", "stock.short o2")
}

func TestFulfilment(t *testing.T) {
	r := newRig(t, "fulfilment")
	r.deliver(3, r.ev.StockReserved.New("o1", about(tea("o1", "ada", 1))))
	r.deliver(3, r.ev.StockReserved.New("o2",
		about(basket("o2", map[string]int64{"tea": 1, sample.Heavy: 1}))))
	r.want(1, "SELECT COUNT(*) FROM parcels WHERE order_id = 'o1' AND state = 'shipped'")
	r.want(1,
		"SELECT COUNT(*) FROM parcels WHERE order_id = 'o2' AND state = 'failed' AND reason = 'the carrier does not take piano'")
	r.want(2, "SELECT COUNT(*) FROM parcels")
	r.wantSent("parcel.shipped o1", "parcel.failed o2")
}

// The first of carrier and customer decides. The request of the other is answered and has no effect. No
// parcel goes to an address that is not paid.
func TestFulfilmentStopsAParcelThatHasNotLeft(t *testing.T) {
	r := newRig(t, "fulfilment")
	late, early := tea("late", "ada", 1), tea("early", "ada", 1)
	for n, to := range []string{"here", "there", "anywhere"} {
		r.deliver(2, r.ev.ChangeAsked.New("late", change(late, int64(n+1), to)))
	}
	r.deliver(2, r.ev.ChangePaid.New("late", change(late, 1, "here")))
	r.deliver(2, r.ev.ChangePaid.New("late", change(late, 2, "there")))
	r.deliver(2, r.ev.StockReserved.New("late", about(late)))
	r.want(0, "SELECT COUNT(*) FROM parcels") // the third is not paid yet
	r.deliver(2, r.ev.ChangeDeclined.New("late", change(late, 3, "anywhere")))
	r.deliver(2, r.ev.ChangeAsked.New("late", change(late, 4, "nowhere")))
	r.deliver(2, r.ev.CancelAsked.New("late", about(late)))
	r.want(1,
		"SELECT COUNT(*) FROM dispatches WHERE order_id = 'late' AND state = 'gone' AND number = 2 AND address = 'there'")
	r.deliver(2, r.ev.CancelAsked.New("early", about(early)))
	r.deliver(2, r.ev.ChangePaid.New("early", change(early, 1, "here")))
	r.deliver(2, r.ev.ChangeAsked.New("early", change(early, 1, "here")))
	r.deliver(2, r.ev.StockReserved.New("early", about(early)))
	r.want(1, "SELECT COUNT(*) FROM parcels")
	r.want(1, "SELECT COUNT(*) FROM skald_mark WHERE outcome = 2")
	r.wantSent("change.taken late", "change.taken late", "change.refused late", "parcel.shipped late",
		"change.refused late", "parcel.gone late",
		"parcel.stopped early", "change.refused early")
	heavy := basket("heavy", map[string]int64{sample.Heavy: 1})
	r.deliver(1, r.ev.StockReserved.New("heavy", about(heavy)))
	r.deliver(1, r.ev.CancelAsked.New("heavy", about(heavy)))
	if sent := r.sent(); !slices.Equal(sent[8:], []string{"parcel.failed heavy", "parcel.gone heavy"}) {
		t.Errorf("sent %q", sent[8:])
	}
}

func TestNotificationMailsOnce(t *testing.T) {
	r := newRig(t, "notification")
	r.deliver(3, r.ev.OrderConfirmed.New("o1", about(tea("o1", "ada", 1))))
	r.deliver(3, r.ev.OrderCancelled.New("o2",
		event.Verdict{Order: tea("o2", "bob", 1), Reason: "out_of_stock"}))
	r.deliver(1, r.ev.OrderPlaced.New("o3", tea("o3", "eve", 1)))
	r.want(2, "SELECT COUNT(*) FROM mails")
	r.want(1,
		"SELECT COUNT(*) FROM mails WHERE order_id = 'o1' AND recipient = 'ada' AND subject = 'Your order is on its way'")
	r.want(1,
		"SELECT COUNT(*) FROM mails WHERE recipient = 'bob' AND subject = 'Your order was cancelled: out_of_stock'")
	r.want(2, marks)
}

func TestAnalyticsCountsEverythingOnce(t *testing.T) {
	r := newRig(t, "analytics")
	v := about(tea("o1", "ada", 1))
	all := []skald.Draft{
		r.ev.OrderPlaced.New("o1", v.Order), r.ev.OrderConfirmed.New("o1", v),
		r.ev.OrderCancelled.New("o1", v),
		r.ev.PaymentTaken.New("o1", v), r.ev.PaymentDeclined.New("o1", v), r.ev.PaymentRefunded.New("o1", v),
		r.ev.StockReserved.New("o1", v), r.ev.StockShort.New("o1", v), r.ev.StockReleased.New("o1", v),
		r.ev.ParcelShipped.New("o1", v), r.ev.ParcelFailed.New("o1", v), r.ev.ParcelStopped.New("o1", v),
		r.ev.ParcelGone.New("o1", v),
		r.ev.CancelAsked.New("o1", v), r.ev.ChangeAsked.New("o1", event.Change{Order: v.Order}),
		r.ev.ChangeTaken.New("o1", event.Change{Order: v.Order}),
		r.ev.ChangeRefused.New("o1", event.Change{Order: v.Order}),
		r.ev.ChangePaid.New("o1", event.Change{Order: v.Order}),
		r.ev.ChangeDeclined.New("o1", event.Change{Order: v.Order}),
		r.ev.ChangeUndone.New("o1", event.Change{Order: v.Order}),
	}
	for _, d := range all {
		r.deliver(2, d)
	}
	r.want(int64(len(all)), "SELECT COUNT(*) FROM happenings WHERE cents = 490")
	r.want(int64(len(all)), "SELECT COUNT(DISTINCT type) FROM happenings")
}
