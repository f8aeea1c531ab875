package main

import (
	"strings"
	"testing"

	"github.com/skald-go/skald/internal/need"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), need.Postgres(t), &out); err != nil {
		t.Fatal(err)
	}
	const want = `order.events.created, key 7a4f6f0e-0000-4000-8000-000000000001, type order.events.created: {"total": 5}
Order.events.created, key 7a4f6f0e-0000-4000-8000-000000000001, type Order.events.created: {"total": 5}
orders, key 42, type orders: {"event": "order.created"}
orders, key 42, type orders: {"event": "order.paid"}
`
	if out.String() != want {
		t.Errorf("it says\n%s", out.String())
	}
}
