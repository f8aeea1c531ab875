package inbox

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// The picker divides claimed messages among all workers. Messages that some workers already have do not make
// the batches of other workers smaller: the inbox claims enough for all workers.
func TestClaimedMessagesAreDividedAmongWorkers(t *testing.T) {
	const workers, each = 4, 100
	in := New[*memstore.Tx](memstore.New(nil), membroker.New(nil), "stock",
		&Options{Workers: workers, Batch: each})
	in.Handle("orders", "order.placed",
		func(context.Context, *memstore.Tx, skald.Message) error { return nil })
	for range 8 {
		in.parked.Adapt([]exec.Result{{Entry: &partition.Entry{Since: time.Now()}, What: decide.Handled}},
			each)
	}
	var all []store.Parked
	for n := range workers * each {
		id := fmt.Sprint(n)
		all = append(all, store.Parked{Consumer: "stock", Identity: store.Identity{Source: "/shop", ID: id},
			Claims: 1,
			Message: skald.Message{ID: id, Source: "/shop", Topic: "orders", Type: "order.placed",
				Key: []byte(id)}})
	}
	in.parked.Take(looked{Claimed: store.Claimed{Parked: all}})
	for n := range workers {
		if got := len(in.pick.Next(n)); got != each {
			t.Errorf("worker %d of %d gets %d of %d claimed messages", n+1, workers, got, workers*each)
		}
	}
}

// While the breaker is open, a suspect that runs alone can be the probe: if it succeeds the consumer
// continues.
func TestSuspectClosesTheBreaker(t *testing.T) {
	in := New[*memstore.Tx](memstore.New(nil), membroker.New(nil), "stock", nil)
	in.Handle("orders", "order.placed",
		func(context.Context, *memstore.Tx, skald.Message) error { return nil })
	failed := exec.Result{Entry: &partition.Entry{}, What: decide.Failed, Print: "one",
		Err: errors.New("no column")}
	for range 50 {
		in.breaker.Note(failed, time.Now().Add(-time.Hour))
	}
	if _, alone := in.breaker.Restrict(time.Now()); !alone {
		t.Fatal("the breaker is closed")
	}
	in.parked.Take(
		looked{Claimed: store.Claimed{Parked: []store.Parked{{Consumer: "stock", CrashCount: 1,
			Identity: store.Identity{Source: "/shop", ID: "1"},
			Message:  skald.Message{ID: "1", Source: "/shop", Topic: "orders", Type: "order.placed"}}}}})
	job := in.pick.Next(0)
	if len(job) != 1 {
		t.Fatalf("given %d messages", len(job))
	}
	if _, closed := in.breaker.Note(exec.Result{Entry: job[0], What: decide.Handled}, time.Now()); !closed {
		t.Error("it stays open")
	}
}
