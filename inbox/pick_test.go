package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/checkpoint"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/store"
)

// silent is a store that nobody asks.
type silent struct{}

func (silent) Attend(context.Context, store.Attend) (store.Attended, error) {
	return store.Attended{}, nil
}

// A bench is a Picker with a partition that a test fills.
type bench struct {
	*picker
	s      partition.Schedule
	l      *partition.Partition
	paused bool
	beside bool
}

func newBench(workers, batch int) *bench {
	b, log := &bench{l: partition.New("orders/0")}, slog.New(slog.DiscardHandler)
	limits := limits{Share: 0.5, Least: 50, Window: time.Minute, Rest: time.Second}
	b.picker = newPick(pickConfig{Workers: workers, Batch: batch, Now: time.Now, Schedule: &b.s,
		Parked: newParked(parkedConfig{Now: time.Now}, &b.s), Retries: newRetries(4),
		Breaker:     newBreaker(limits),
		Checkpoints: checkpoint.New(checkpoint.Config{DB: silent{}, Now: time.Now, Logger: log}, &b.s),
		Paused:      func() bool { return b.paused }, AsksBeside: func() bool { return b.beside },
		Follows: func() bool { return false }})
	return b
}

// add are n messages that came, each of a key of its own.
func (b *bench) add(n int) (es []*partition.Entry) {
	for range n {
		m := skald.Message{Topic: "orders", Key: fmt.Append(nil, len(b.l.Entries))}
		e := b.l.Add(broker.Delivery{Message: m, Partition: b.l.Name, Position: int64(len(b.l.Entries))})
		b.s.Number(e)
		es = append(es, e)
	}
	b.s.Start(es)
	return es
}

// What is ready is shared out among the workers, and no more than a batch goes to each.
func TestReadyIsSharedOut(t *testing.T) {
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

// Those that cannot share a transaction are taken alone: behind a failure, with a call, or where a table of
// the user's is asked.
func TestSomeAreTakenAlone(t *testing.T) {
	b := newBench(1, 100)
	es := b.add(4)
	es[1].Lonely, es[3].Again = true, 1
	for _, want := range []int{1, 1, 1, 1} {
		if got := len(b.Next(0)); got != want {
			t.Errorf("given %d, want %d", got, want)
		}
	}
	b.beside = true
	if b.add(4); len(b.Next(0)) != 1 {
		t.Error("several share a transaction in which the user's table is asked")
	}
}

// Nothing is begun while an operator has it pause, nor what the database does not know of.
func TestNothingIsBegun(t *testing.T) {
	b := newBench(1, 1)
	b.l.Origin, b.l.Checkpoint = "one", &store.Checkpoint{InFlightEnd: 1}
	b.add(2)
	if b.paused = true; b.Startable(0) || b.Next(0) != nil {
		t.Error("something is begun though it is paused")
	}
	b.paused = false
	if first := b.Next(0); len(first) != 1 || first[0].Position != 0 || b.l.Begun != 1 {
		t.Errorf("begun are %v", first)
	}
	if next := b.Next(1); next != nil || b.l.Wanted != 2 {
		t.Errorf("begun are %v; wanted is %d", next, b.l.Wanted)
	}
}

// Batches that came to grief by rivals become smaller, and larger again behind one that went well.
func TestBatchesFollowHowTheyGo(t *testing.T) {
	b := newBench(1, 100)
	job := func(fell bool) []exec.Result {
		e := &partition.Entry{}
		return []exec.Result{{Entry: e, What: decide.Handled, Fell: fell}, {Entry: e, What: decide.Handled}}
	}
	for i, c := range []struct {
		fell bool
		want int
	}{{true, 50}, {true, 25}, {false, 50}, {false, 100}, {false, 100}} {
		if b.Adapt(job(c.fell)); b.size != c.want {
			t.Errorf("behind job %d: %d, want %d", i+1, b.size, c.want)
		}
	}
}
