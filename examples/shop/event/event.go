// Package event declares the messages of the shop's services: topics, types and payloads. Services share
// these declarations and nothing else.
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

// The types of the commands that Order sends in the orchestrated style. The answers are events.
const (
	ChargePayment = "payment.charge"
	RefundPayment = "payment.refund"
	ReserveStock  = "stock.reserve"
	ReleaseStock  = "stock.release"
	ShipParcel    = "parcel.ship"
)

// Style selects choreography or orchestration. All services of a shop must have the same.
type Style string

// Styles.
const (
	Choreographed Style = ""             // each service reacts to events of others
	Orchestrated  Style = "orchestrated" // a saga in Order sends commands
)

// Order is a customer's order. Every event contains it completely, so that no service has to ask
// another.
type Order struct {
	ID       string `json:"id" avro:"id"`
	Customer string `json:"customer" avro:"customer"`
	Items    []Item `json:"items" avro:"items"`
	Cents    int64  `json:"cents" avro:"cents"` // the total
}

// Item is one line of an order.
type Item struct {
	SKU      string `json:"sku" avro:"sku"`
	Quantity int64  `json:"quantity" avro:"quantity"`
	Cents    int64  `json:"cents" avro:"cents"` // price of one piece
}

// Verdict is the outcome of an order at one service.
type Verdict struct {
	Order
	Reason string `json:"reason,omitempty"` // of a refusal
	// Method is the payment method of a payment that was taken. A later version added it.
	Method string `json:"payment_method,omitempty" avro:"payment_method"`
}

// Change is a customer's request to send an order to another address, and its fee.
type Change struct {
	Order
	Number  int64  `json:"number"` // of the change within its order: 1, 2, …
	Address string `json:"address"`
	Fee     int64  `json:"fee"`              // in cents, in addition to the order
	Reason  string `json:"reason,omitempty"` // of a refusal
}

// Events declares the events on the topics of one shop. The key of each event is the id of its order.
type Events struct {
	// Style is the style of the shop. Set it before any service uses the events.
	Style Style

	prefix string

	OrderPlaced                                    skald.Event[Order]
	OrderConfirmed, OrderCancelled                 skald.Event[Verdict]
	PaymentTaken, PaymentDeclined, PaymentRefunded skald.Event[Verdict]
	StockReserved, StockShort, StockReleased       skald.Event[Verdict]
	ParcelShipped, ParcelFailed                    skald.Event[Verdict]

	// Requests of customers about an order, and the answers of Payment and Fulfilment.

	CancelAsked, ParcelStopped, ParcelGone   skald.Event[Verdict]
	ChangeAsked, ChangeTaken, ChangeRefused  skald.Event[Change]
	ChangePaid, ChangeDeclined, ChangeUndone skald.Event[Change]

	// Commands of the orchestrated style.

	ChargePayment                          skald.Event[Order]
	RefundPayment                          skald.Event[Verdict]
	ReserveStock, ReleaseStock, ShipParcel skald.Event[Verdict]
}

// first is the codec of the first version of payloads: JSON without a schema. A message that names a schema
// comes from a newer build.
type first struct{ skald.JSON }

// Decode returns skald.UnknownVersion for a payload with a schema, so that a newer build handles it.
func (first) Decode(ctx context.Context, m skald.Message, v any) error {
	if m.Schema != "" {
		return skald.UnknownVersion(fmt.Errorf("%s has the unknown schema %q", m.Type, m.Schema))
	}
	return skald.JSON{}.Decode(ctx, m, v)
}

// New declares the events of a shop whose topics begin with prefix and a dot; "" is the shop without
// prefix.
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

// Topics returns the four topics of the shop.
func (e *Events) Topics() []string {
	return []string{e.name("orders"), e.name("payments"), e.name("inventory"), e.name("shipping")}
}

// Tracker is the consumer in Order's database that tracks choreographed orders.
const Tracker = "tracker"

// Listens returns the topics of each service and of the tracker, for brokers that need a queue before the
// first message.
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

// Group returns the consumer group of a service, which is also the consumer name of its marks.
func (e *Events) Group(service string) string { return e.name(service) }

func (e *Events) name(s string) string {
	if e.prefix == "" {
		return s
	}
	return e.prefix + "." + s
}
