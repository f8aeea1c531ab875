// Package event declares what the services of the shop say to each other: topics, types and payloads. Both
// sides of a topic share these declarations, and nothing else of each other.
package event

import "github.com/skald-go/skald"

// The types of the shop's events. README.md maps them to the names that tutorials use.
const (
	OrderPlaced     = "order.placed"
	OrderConfirmed  = "order.confirmed"
	OrderCancelled  = "order.cancelled"
	PaymentTaken    = "payment.taken"
	PaymentDeclined = "payment.declined"
	PaymentRefunded = "payment.refunded"
	StockReserved   = "stock.reserved"
	StockShort      = "stock.short"
	StockReleased   = "stock.released"
	ParcelShipped   = "parcel.shipped"
	ParcelFailed    = "parcel.failed"
)

// An Order is what was bought. Every event carries it whole, so that no service asks another for it.
type Order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Items    []Item `json:"items"`
	Cents    int64  `json:"cents"` // the sum
}

// An Item is one line of an order.
type Item struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
	Cents    int64  `json:"cents"` // of one piece
}

// A Verdict is what became of an order at one service.
type Verdict struct {
	Order
	Reason string `json:"reason,omitempty"` // of a "no"
}

// Events are the shop's events on the topics of one shop. The key of each is the id of its order.
type Events struct {
	prefix string

	OrderPlaced                                    skald.Event[Order]
	OrderConfirmed, OrderCancelled                 skald.Event[Verdict]
	PaymentTaken, PaymentDeclined, PaymentRefunded skald.Event[Verdict]
	StockReserved, StockShort, StockReleased       skald.Event[Verdict]
	ParcelShipped, ParcelFailed                    skald.Event[Verdict]
}

// New declares the events of the shop whose topics begin with prefix and a dot; "" is the shop without one.
func New(prefix string) *Events {
	e := &Events{prefix: prefix}
	orders, payments := e.name("orders"), e.name("payments")
	inventory, shipping := e.name("inventory"), e.name("shipping")
	e.OrderPlaced = skald.Event[Order]{Topic: orders, Type: OrderPlaced}
	e.OrderConfirmed = skald.Event[Verdict]{Topic: orders, Type: OrderConfirmed}
	e.OrderCancelled = skald.Event[Verdict]{Topic: orders, Type: OrderCancelled}
	e.PaymentTaken = skald.Event[Verdict]{Topic: payments, Type: PaymentTaken}
	e.PaymentDeclined = skald.Event[Verdict]{Topic: payments, Type: PaymentDeclined}
	e.PaymentRefunded = skald.Event[Verdict]{Topic: payments, Type: PaymentRefunded}
	e.StockReserved = skald.Event[Verdict]{Topic: inventory, Type: StockReserved}
	e.StockShort = skald.Event[Verdict]{Topic: inventory, Type: StockShort}
	e.StockReleased = skald.Event[Verdict]{Topic: inventory, Type: StockReleased}
	e.ParcelShipped = skald.Event[Verdict]{Topic: shipping, Type: ParcelShipped}
	e.ParcelFailed = skald.Event[Verdict]{Topic: shipping, Type: ParcelFailed}
	return e
}

// Topics are the four topics of the shop.
func (e *Events) Topics() []string {
	return []string{e.name("orders"), e.name("payments"), e.name("inventory"), e.name("shipping")}
}

// Listens is the topics that each service hears, for brokers that must know before something is said there.
func (e *Events) Listens() map[string][]string {
	orders, payments, inventory, shipping := e.name("orders"), e.name("payments"), e.name("inventory"), e.name("shipping")
	return map[string][]string{
		"order":        {payments, inventory, shipping},
		"payment":      {orders, inventory, shipping},
		"inventory":    {payments, shipping},
		"fulfilment":   {inventory},
		"notification": {orders},
		"analytics":    {orders, payments, inventory, shipping},
	}
}

// Group is the name under which a service listens, and under which it marks what it has handled.
func (e *Events) Group(service string) string { return e.name(service) }

func (e *Events) name(s string) string {
	if e.prefix == "" {
		return s
	}
	return e.prefix + "." + s
}
