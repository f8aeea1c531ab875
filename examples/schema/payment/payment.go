// Package payment declares the events that writers and readers of payments share.
package payment

import (
	"github.com/skald-go/skald"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/avro"
)

// Payment is what was paid. Method came later: its default is what older payments have.
type Payment struct {
	Order  string `avro:"order"`
	Amount int64  `avro:"amount"`
	Method string `avro:"payment_method,default=unknown"`
}

// Events are those about payments.
func Events(r *schema.Registry) skald.Event[Payment] {
	return skald.Event[Payment]{Topic: "payments", Type: "payment.processed",
		Codec: avro.Codec[Payment](r, nil)}
}
