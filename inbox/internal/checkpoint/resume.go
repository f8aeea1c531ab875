package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// beginnings are what the broker was told of where partitions begin. It may ask from any goroutine.
type beginnings struct {
	mu     sync.Mutex
	server string           // that said so last
	at     map[string]int64 // by partition, until it is opened
}

// Resume says where partitions are to be read from: how far the database knows their messages to be finished.
func (c *Checkpointer) Resume(ctx context.Context, partitions []broker.Partition) (map[string]int64, error) {
	all, err := c.o.DB.Attend(ctx, store.Attend{Consumer: c.o.Group})
	if err != nil {
		return nil, fmt.Errorf("where %s stands: %w", c.o.Group, err)
	}
	out := map[string]int64{}
	for _, l := range partitions {
		s, there := checkpointOf(all, l.Name)
		if there && s.Origin == l.Origin && l.Origin != "" && s.Position >= 0 {
			out[l.Name] = s.Position
		}
	}
	c.begins.note(all.Server, partitions, out)
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

// stand tells whether partitions that are opened stand where the broker was told that they begin, or farther.
// One that was rewound in between does not, and is read from too far ahead.
func (b *beginnings) stand(e Call) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.server != "" && b.server != e.was.Server {
		return false
	}
	for _, l := range e.occupy {
		s, there := checkpointOf(e.was, l.Name)
		if at, told := b.at[l.Name]; told && there && s.Origin == l.Origin && s.Position < at {
			return false
		}
	}
	for _, l := range e.occupy {
		delete(b.at, l.Name)
	}
	return true
}

func checkpointOf(all store.Attended, name string) (store.Checkpoint, bool) {
	i := slices.IndexFunc(all.Checkpoints, func(s store.Checkpoint) bool { return s.Partition == name })
	if i < 0 {
		return store.Checkpoint{}, false
	}
	return all.Checkpoints[i], true
}
