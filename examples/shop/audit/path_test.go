package audit

import (
	"testing"

	"github.com/skald-go/skald/examples/shop/event"
)

// Messages of one key keep the order of their rows. A command of a saga and another message have no order
// between them.
func TestOrderPerKey(t *testing.T) {
	for name, c := range map[string]struct {
		first, second string
		ok            bool
	}{
		"events":               {event.ChangeAsked, event.CancelAsked, false},
		"commands":             {event.ChargePayment, event.RefundPayment, false},
		"an event and command": {event.ChargePayment, event.ChangeAsked, true},
	} {
		t.Run(name, func(t *testing.T) {
			at := func(id, kind string, seq int64) message {
				return message{identity: identity{"/order", id}, seq: seq, topic: "orders", key: "o-1",
					kind: kind}
			}
			sent := []message{at("a", c.first, 1), at("b", c.second, 2)}
			b := books{services: []*service{{name: "order", outbox: sent},
				{name: "payment", marks: map[identity]mark{
					sent[0].identity: {arrival: 2}, sent[1].identity: {arrival: 1}}}}}
			if i := b.orderPerKey(); i.OK != c.ok || i.Checked != 2 {
				t.Errorf("%+v", i)
			}
		})
	}
}
