package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/control"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// bench is a picker with a partition that a test fills.
type bench struct {
	*picker[*memstore.Tx]
	l *partition.Partition
}

func newBench(workers, batch int) *bench {
	in := New[*memstore.Tx](memstore.New(nil), membroker.New(nil), "stock",
		&Options{Workers: workers, Batch: batch, Logger: slog.New(slog.DiscardHandler)})
	return &bench{in.pick, partition.New("orders/0")}
}

// add adds n messages, each with its own key.
func (b *bench) add(n int) (es []*partition.Entry) {
	for range n {
		m := skald.Message{Topic: "orders", Key: fmt.Append(nil, len(b.l.Entries))}
		e := b.l.Add(broker.Delivery{Message: m, Partition: b.l.Name, Position: int64(len(b.l.Entries))})
		b.in.schedule.Number(e)
		es = append(es, e)
	}
	b.in.schedule.Start(es)
	return es
}

// The picker divides ready messages among the workers, with at most one batch for each.
func TestReadyMessagesAreDividedAmongWorkers(t *testing.T) {
	for _, c := range []struct{ workers, batch, ready, want int }{
		{4, 100, 3, 1}, {4, 100, 40, 11}, {4, 5, 40, 5}, {4, 1, 40, 1}, {1, 100, 40, 40},
	} {
		b := newBench(c.workers, c.batch)
		b.add(c.ready)
		if got := len(b.Next(0)); got != c.want {
			t.Errorf("of %d ready messages one of %d workers gets %d, want %d", c.ready, c.workers,
				got, c.want)
		}
	}
}

// These messages run alone: messages behind a failure, with a call, with a step to undo, or with a legacy
// table.
func TestMessagesThatRunAlone(t *testing.T) {
	b := newBench(1, 100)
	es := b.add(4)
	es[1].NoSharing, es[3].Again = true, 1
	for _, want := range []int{1, 1, 1, 1} {
		if got := len(b.Next(0)); got != want {
			t.Errorf("given %d, want %d", got, want)
		}
	}
	for state, want := range map[store.StepState]int{store.StepUndone: 1, store.StepDone: 4} {
		steps := newBench(1, 100)
		steps.in.exec.SetStepRole(store.Kind{Topic: "orders"}, exec.StepRole{State: state})
		if steps.add(4); len(steps.Next(0)) != want {
			t.Errorf("not %d messages with steps to be %v share a transaction", want, state)
		}
	}
	b.in.LegacyDedup(func(context.Context, *memstore.Tx, store.Identity, skald.Message) (bool, error) {
		return false, nil
	})
	if b.add(4); len(b.Next(0)) != 1 {
		t.Error("several messages with a legacy table share a transaction")
	}
}

// No message starts while an operator has paused the consumer, or beyond the stored checkpoint.
func TestNothingBeginsInAPause(t *testing.T) {
	b := newBench(1, 1)
	b.l.Origin, b.l.Checkpoint = "one", &store.Checkpoint{InFlightEnd: 1}
	b.add(2)
	if b.in.orders.now.Paused = new(control.Order); b.Startable(0) || b.Next(0) != nil {
		t.Error("a message begins in a pause")
	}
	b.in.orders.now.Paused = nil
	if first := b.Next(0); len(first) != 1 || first[0].Position != 0 || b.l.Begun != 1 {
		t.Errorf("begun are %v", first)
	}
	if next := b.Next(1); next != nil || b.l.Wanted != 2 {
		t.Errorf("begun are %v; wanted is %d", next, b.l.Wanted)
	}
}
