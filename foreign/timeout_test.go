package foreign_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/need"
)

// A page whose publication takes longer than the role's transaction_timeout is marked, not published again.
func TestPageOutlastsTransactionTimeout(t *testing.T) {
	t.Parallel()
	server, err := url.Parse(need.PostgresVersion(t, "18"))
	if err != nil {
		t.Fatal(err)
	}
	q := server.Query()
	q.Set("transaction_timeout", "1s")
	server.RawQuery = q.Encode()
	b := newBedOn(t, server.String(), counted, "orders")
	published := 0
	bus := &gate{Publisher: b.bus, next: func(_ []skald.Message, pass func() broker.Pending) broker.Pending {
		published++
		time.Sleep(1500 * time.Millisecond)
		return pass()
	}}
	b.do(`INSERT INTO outbox (key, body) VALUES ('a', '1')`)
	r := b.relay(b.table(countedMap), bus)
	for range 2 {
		if _, err := r.Step(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if published != 1 {
		t.Errorf("the row was published %d times", published)
	}
	b.expect("orders a 1")
}
