package inbox_test

import (
	"context"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store/memstore"
)

// Two handlers for one type of a topic are refused, for each kind of registration. The error names both.
func TestTwoHandlersForOneTypeAreRefused(t *testing.T) {
	e := skald.Event[string]{Topic: "orders", Type: "placed"}
	on := func(in *inbox.Inbox[*memstore.Tx]) {
		inbox.On(in, e, func(context.Context, *memstore.Tx, skald.Received[string]) error { return nil })
	}
	batch := func(in *inbox.Inbox[*memstore.Tx]) {
		in.HandleBatch("orders", func(context.Context, *memstore.Tx, []skald.Message) error { return nil },
			"placed", "paid")
	}
	result := func(in *inbox.Inbox[*memstore.Tx]) {
		inbox.OnResult(in, e,
			func(context.Context, *memstore.Tx, skald.Received[string]) (inbox.Result, error) {
				return inbox.Result{}, nil
			})
	}
	type give = func(in *inbox.Inbox[*memstore.Tx])
	for _, c := range []struct {
		give []give
		want []string
	}{
		{[]give{on, batch}, []string{`"placed"`, `"orders"`, "inbox.On at ", "inbox.(*Inbox).HandleBatch at ",
			"registered_test.go:"}},
		{[]give{batch, result}, []string{"inbox.(*Inbox).HandleBatch at ", "inbox.OnResult at "}},
		{[]give{on, on}, []string{"inbox.On at "}},
	} {
		w := newWorld(t, 1)
		in := inbox.New(w.db, w.bus, "stock", nil)
		for _, give := range c.give {
			give(in)
		}
		_, err := in.Step(t.Context())
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Step returns %v, want it to name %q", err, want)
			}
		}
		if err := in.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "two handlers") {
			t.Errorf("Run returns %v", err)
		}
	}
}
