// Package event declares what the services of the shop say to each other: topics, types and payloads. Both
// sides of a topic share these declarations, and nothing else of each other.
package event

import (
	"context"
	"fmt"

	"github.com/skald-go/skald"
)

// The types of the shop's events. README.md maps them to the names that tutorials use.
const (
	OrderPlaced     = "order.placed"
	OrderConfirmed  = "order.confirmed"
	OrderCancelled  = "order.cancelled"
	CancelAsked     = "order.cancel_asked"
	ChangeAsked     = "order.change_asked"
	ChangePaid      = "change.paid"
	ChangeDeclined  = "change.declined"
	ChangeUndone    = "change.undone"
	PaymentTaken    = "payment.taken"
	PaymentDeclined = "payment.declined"
	PaymentRefunded = "payment.refunded"
	StockReserved   = "stock.reserved"
	StockShort      = "stock.short"
	StockReleased   = "stock.released"
	ParcelShipped   = "parcel.shipped"
	ParcelFailed    = "parcel.failed"
	ParcelStopped   = "parcel.stopped"
	ParcelGone      = "parcel.gone"
	ChangeTaken     = "change.taken"
	ChangeRefused   = "change.refused"
)

// The types of the commands that Order gives in the orchestrated style. The answers to them are events.
const (
	ChargePayment = "payment.charge"
	RefundPayment = "payment.refund"
	ReserveStock  = "stock.reserve"
	ReleaseStock  = "stock.release"
	ShipParcel    = "parcel.ship"
)

// A Style is who knows what comes next for an order. All services of a shop have the same one.
type Style string

// Styles.
const (
	Choreographed Style = ""             // each service hears events, and says others
	Orchestrated  Style = "orchestrated" // a saga of Order's gives commands
)

// An Order is what was bought. Every event carries it whole, so that no service asks another for it.
type Order struct {
	ID       string `json:"id" avro:"id"`
	Customer string `json:"customer" avro:"customer"`
	Items    []Item `json:"items" avro:"items"`
	Cents    int64  `json:"cents" avro:"cents"` // the sum
}

// An Item is one line of an order.
type Item struct {
	SKU      string `json:"sku" avro:"sku"`
	Quantity int64  `json:"quantity" avro:"quantity"`
	Cents    int64  `json:"cents" avro:"cents"` // of one piece
}

// A Verdict is the outcome of an order at one service.
type Verdict struct {
	Order
	Reason string `json:"reason,omitempty"` // of a "no"
	// of a payment that was taken; it came later
	Method string `json:"payment_method,omitempty" avro:"payment_method"`
}

// A Change is where a customer wants an order to be sent instead, and what that costs.
type Change struct {
	Order
	Number  int64  `json:"number"` // of the order's changes: 1, 2, …
	Address string `json:"address"`
	Fee     int64  `json:"fee"`              // in cents, besides those of the order
	Reason  string `json:"reason,omitempty"` // of a "no"
}

// Events are the shop's events on the topics of one shop. The key of each is the id of its order.
type Events struct {
	// Style of the shop: set it before any service has the events.
	Style Style

	prefix string

	OrderPlaced                                    skald.Event[Order]
	OrderConfirmed, OrderCancelled                 skald.Event[Verdict]
	PaymentTaken, PaymentDeclined, PaymentRefunded skald.Event[Verdict]
	StockReserved, StockShort, StockReleased       skald.Event[Verdict]
	ParcelShipped, ParcelFailed                    skald.Event[Verdict]

	// What customers wish for behind their order, and what Payment and Fulfilment answer.
	CancelAsked, ParcelStopped, ParcelGone   skald.Event[Verdict]
	ChangeAsked, ChangeTaken, ChangeRefused  skald.Event[Change]
	ChangePaid, ChangeDeclined, ChangeUndone skald.Event[Change]

	// Commands of the orchestrated style.
	ChargePayment                          skald.Event[Order]
	RefundPayment                          skald.Event[Verdict]
	ReserveStock, ReleaseStock, ShipParcel skald.Event[Verdict]
}

// first is the codec of payloads as they were first declared: JSON, without a schema. What names one is of a
// build that is newer.
type first struct{ skald.JSON }

// Decode leaves what it does not know to whoever does.
func (first) Decode(ctx context.Context, m skald.Message, v any) error {
	if m.Schema != "" {
		return skald.UnknownVersion(fmt.Errorf("%s by the schema %q", m.Type, m.Schema))
	}
	return skald.JSON{}.Decode(ctx, m, v)
}

// New declares the events of the shop whose topics begin with prefix and a dot; "" is the shop without one.
func New(prefix string) *Events {
	e := &Events{prefix: prefix}
	orders, payments := e.name("orders"), e.name("payments")
	inventory, shipping := e.name("inventory"), e.name("shipping")
	e.OrderPlaced = skald.Event[Order]{Topic: orders, Type: OrderPlaced, Codec: first{}}
	e.OrderConfirmed = skald.Event[Verdict]{Topic: orders, Type: OrderConfirmed, Codec: first{}}
	e.OrderCancelled = skald.Event[Verdict]{Topic: orders, Type: OrderCancelled, Codec: first{}}
	e.PaymentTaken = skald.Event[Verdict]{Topic: payments, Type: PaymentTaken, Codec: first{}}
	e.PaymentDeclined = skald.Event[Verdict]{Topic: payments, Type: PaymentDeclined, Codec: first{}}
	e.PaymentRefunded = skald.Event[Verdict]{Topic: payments, Type: PaymentRefunded, Codec: first{}}
	e.StockReserved = skald.Event[Verdict]{Topic: inventory, Type: StockReserved, Codec: first{}}
	e.StockShort = skald.Event[Verdict]{Topic: inventory, Type: StockShort, Codec: first{}}
	e.StockReleased = skald.Event[Verdict]{Topic: inventory, Type: StockReleased, Codec: first{}}
	e.ParcelShipped = skald.Event[Verdict]{Topic: shipping, Type: ParcelShipped, Codec: first{}}
	e.ParcelFailed = skald.Event[Verdict]{Topic: shipping, Type: ParcelFailed, Codec: first{}}
	e.CancelAsked = skald.Event[Verdict]{Topic: orders, Type: CancelAsked, Codec: first{}}
	e.ChangeAsked = skald.Event[Change]{Topic: orders, Type: ChangeAsked, Codec: first{}}
	e.ParcelStopped = skald.Event[Verdict]{Topic: shipping, Type: ParcelStopped, Codec: first{}}
	e.ParcelGone = skald.Event[Verdict]{Topic: shipping, Type: ParcelGone, Codec: first{}}
	e.ChangeTaken = skald.Event[Change]{Topic: shipping, Type: ChangeTaken, Codec: first{}}
	e.ChangeRefused = skald.Event[Change]{Topic: shipping, Type: ChangeRefused, Codec: first{}}
	e.ChangePaid = skald.Event[Change]{Topic: payments, Type: ChangePaid, Codec: first{}}
	e.ChangeDeclined = skald.Event[Change]{Topic: payments, Type: ChangeDeclined, Codec: first{}}
	e.ChangeUndone = skald.Event[Change]{Topic: payments, Type: ChangeUndone, Codec: first{}}
	e.ChargePayment = skald.Event[Order]{Topic: orders, Type: ChargePayment, Codec: first{}}
	e.RefundPayment = skald.Event[Verdict]{Topic: orders, Type: RefundPayment, Codec: first{}}
	e.ReserveStock = skald.Event[Verdict]{Topic: orders, Type: ReserveStock, Codec: first{}}
	e.ReleaseStock = skald.Event[Verdict]{Topic: orders, Type: ReleaseStock, Codec: first{}}
	e.ShipParcel = skald.Event[Verdict]{Topic: orders, Type: ShipParcel, Codec: first{}}
	return e
}

// Topics are the four topics of the shop.
func (e *Events) Topics() []string {
	return []string{e.name("orders"), e.name("payments"), e.name("inventory"), e.name("shipping")}
}

// Tracker is the consumer of Order's database that knows where each choreographed order stands.
const Tracker = "tracker"

// Listens is the topics that each service hears, and the tracker, for brokers that must know before something
// is said there.
func (e *Events) Listens() map[string][]string {
	orders, payments, inventory, shipping := e.name("orders"), e.name("payments"), e.name("inventory"),
		e.name("shipping")
	if e.Style == Orchestrated {
		return map[string][]string{
			"order":        {payments, inventory, shipping},
			"payment":      {orders, shipping},
			"inventory":    {orders},
			"fulfilment":   {orders, payments, inventory},
			"notification": {orders},
			"analytics":    {orders, payments, inventory, shipping},
		}
	}
	return map[string][]string{
		"order":        {payments, inventory, shipping},
		"payment":      {orders, inventory, shipping},
		"inventory":    {payments, shipping},
		"fulfilment":   {orders, payments, inventory},
		"notification": {orders},
		"analytics":    {orders, payments, inventory, shipping},
		Tracker:        {orders, payments, inventory, shipping},
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
