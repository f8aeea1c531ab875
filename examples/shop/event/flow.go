package event

import (
	"time"

	"github.com/skald-go/skald/flow"
)

// Placing is the flow of an order, for a tracker. It contains neither changes of an order nor a
// cancellation that comes too late, because an order ends the same way with them.
func (e *Events) Placing() (*flow.Flow, error) {
	return flow.New("order",
		// a customer may cancel at any time, and that event may arrive first
		flow.From(e.OrderPlaced, e.ParcelStopped),
		flow.Then(e.OrderPlaced, e.PaymentTaken, e.PaymentDeclined).Within(time.Minute),
		flow.Then(e.PaymentTaken, e.StockReserved, e.StockShort).Within(time.Minute),
		flow.Then(e.StockReserved, e.ParcelShipped, e.ParcelFailed),
		flow.Then(e.ParcelShipped, e.OrderConfirmed),
		flow.Then(e.PaymentDeclined, e.OrderCancelled), flow.Then(e.StockShort, e.OrderCancelled),
		flow.Then(e.ParcelFailed, e.OrderCancelled), flow.Then(e.ParcelStopped, e.OrderCancelled),
		flow.Fail(e.PaymentDeclined, e.StockShort, e.ParcelFailed, e.ParcelStopped),
		flow.Undo(e.PaymentTaken, e.PaymentRefunded).Within(time.Hour),
		flow.Undo(e.StockReserved, e.StockReleased).Within(time.Hour),
		flow.Undo(e.ParcelShipped, e.ParcelStopped), // a parcel that has left cannot be stopped
		flow.End(e.OrderConfirmed, e.OrderCancelled))
}
