// This file gives the stored positions to the broker, and checks later that they did not change.

package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/control"
	"github.com/skald-go/skald/store"
)

// beginnings has the positions that Resume gave to the broker. It is safe for concurrent use, because the
// broker may call Resume from any goroutine.
type beginnings struct {
	mu     sync.Mutex
	server string           // the run of the database server with the positions
	at     map[string]int64 // by partition, until the partition is opened
}

// Resume returns the stored positions of partitions to the broker. The result is Known if the consumer has a
// checkpoint of a partition. Stored types or an order to pause do not make it known, because they may be
// stored before the consumer joins for the first time.
func (c *Checkpointer) Resume(ctx context.Context, partitions []broker.Partition) (broker.Resumed, error) {
	all, err := c.o.DB.SyncConsumer(ctx, store.SyncRequest{Consumer: c.o.Group})
	if err != nil {
		return broker.Resumed{}, &StoreError{fmt.Errorf("read the checkpoints of %s: %w", c.o.Group, err)}
	}
	out := broker.Resumed{Checkpoints: map[string]int64{}}
	for i := range all.Checkpoints {
		out.Known = out.Known || !control.Is(&all.Checkpoints[i])
	}
	for _, l := range partitions {
		s, there := checkpointOf(all, l.Name)
		if there && s.Origin == l.Origin && l.Origin != "" && s.Position >= 0 {
			out.Checkpoints[l.Name] = s.Position
		}
	}
	c.begins.note(all.Server, partitions, out.Checkpoints)
	return out, nil
}

func (b *beginnings) note(server string, partitions []broker.Partition, at map[string]int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.server = server; b.at == nil {
		b.at = map[string]int64{}
	}
	for _, l := range partitions {
		delete(b.at, l.Name)
		if p, some := at[l.Name]; some {
			b.at[l.Name] = p
		}
	}
}

// confirm reports whether the partitions of e are at or after the positions that Resume gave to the broker.
// If one was rewound meanwhile, the broker would skip messages.
func (b *beginnings) confirm(e Call) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.server != "" && b.server != e.answer.Server {
		return false
	}
	for _, l := range e.occupy {
		s, there := checkpointOf(e.answer, l.Name)
		if at, known := b.at[l.Name]; known && there && s.Origin == l.Origin && s.Position < at {
			return false
		}
	}
	for _, l := range e.occupy {
		delete(b.at, l.Name)
	}
	return true
}

func checkpointOf(all store.SyncResult, name string) (store.Checkpoint, bool) {
	i := slices.IndexFunc(all.Checkpoints, func(s store.Checkpoint) bool { return s.Partition == name })
	if i < 0 {
		return store.Checkpoint{}, false
	}
	return all.Checkpoints[i], true
}

// StoreError is an error of the database that the broker's client returns from a join.
type StoreError struct{ Err error }

func (e *StoreError) Error() string { return e.Err.Error() }
func (e *StoreError) Unwrap() error { return e.Err }
