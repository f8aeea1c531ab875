package inbox

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// What was claimed is shared out among all workers: what some of them have in hand makes the batches of the others no smaller, since
// as much is claimed at a time as all of them can have.
func TestClaimedAreSharedOutAmongAllWorkers(t *testing.T) {
	const workers, each = 4, 100
	in := New[*memstore.Tx](memstore.New(nil), membroker.New(nil), "stock", &Options{Workers: workers, Batch: each})
	in.Handle("orders", "order.placed", func(context.Context, *memstore.Tx, skald.Message) error { return nil })
	in.shelf.size = each
	for n := range workers * each {
		id := fmt.Sprint(n)
		in.claim(&store.Parked{Consumer: "stock", Identity: store.Identity{Source: "/shop", ID: id}, Claims: 1,
			Message: skald.Message{ID: id, Source: "/shop", Topic: "orders", Type: "order.placed", Key: []byte(id)}}, time.Now())
	}
	for n := range workers {
		if got := len(in.gather(n)); got != each {
			t.Errorf("worker %d of %d gets %d of %d claimed messages", n+1, workers, got, workers*each)
		}
	}
}
