// The files consumer*.go have the checkpoints, types and heartbeats of consumers. They need no locks, because
// the caller has locked the database.

package memstore

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/control"
	"github.com/skald-go/skald/store"
)

// consumerTable has all consumers.
type consumerTable struct {
	checkpoints map[checkpointKey]store.Checkpoint
	kinds       map[kindKey]time.Time // time of the last heartbeat with each type
	signs       map[string]sign       // by consumer
}

type (
	checkpointKey struct{ consumer, partition string }
	kindKey       struct {
		consumer string
		store.Kind
	}
	// sign has the times of a consumer's last heartbeat and last progress.
	sign struct{ heard, progress time.Time }
)

// newConsumer returns an empty table.
func newConsumer() *consumerTable {
	return &consumerTable{checkpoints: map[checkpointKey]store.Checkpoint{}, kinds: map[kindKey]time.Time{},
		signs: map[string]sign{}}
}

// Beat records a heartbeat with the types that a process handles. It returns the types that were recorded
// before.
func (cs *consumerTable) Beat(consumer string, b *store.Heartbeat, now time.Time) (out []store.Kind) {
	for key, at := range cs.kinds {
		switch {
		case key.consumer != consumer:
		case b.Forget > 0 && at.Before(now.Add(-b.Forget)):
			delete(cs.kinds, key)
		default:
			out = append(out, key.Kind)
		}
	}
	for _, k := range b.Own {
		cs.kinds[kindKey{consumer, k}] = now
	}
	if len(b.Own) > 0 {
		s, known := cs.signs[consumer]
		if s.heard = now; b.Progress || !known {
			s.progress = now
		}
		cs.signs[consumer] = s
	}
	slices.SortFunc(out, func(a, b store.Kind) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Type, b.Type))
	})
	return out
}

// SetHeartbeats sets LastHeartbeat of each of the types in kinds to the time since the last heartbeat of a
// process that handles the type.
func (cs *consumerTable) SetHeartbeats(kinds []store.UnhandledKind, now time.Time) {
	for i := range kinds {
		if at, noted := cs.kinds[kindKey{kinds[i].Consumer, kinds[i].Kind}]; noted {
			kinds[i].LastHeartbeat = now.Sub(at)
		}
	}
}

// List lists the consumers that ever wrote a heartbeat, by name.
func (cs *consumerTable) List(now time.Time) (out []store.Consumer) {
	topics := map[string][]string{}
	for k := range cs.kinds {
		topics[k.consumer] = append(topics[k.consumer], k.Topic)
	}
	for _, name := range slices.Sorted(maps.Keys(cs.signs)) {
		s, of := cs.signs[name], topics[name]
		slices.Sort(of)
		out = append(out, store.Consumer{Name: name, Topics: slices.Compact(of),
			LastHeartbeat: now.Sub(s.heard), Progress: now.Sub(s.progress)})
	}
	return out
}

// Belonging adds the numbers of the consumer's checkpoints, controls and types to b, and sets
// b.LastHeartbeat.
func (cs *consumerTable) Belonging(consumer string, b *store.ConsumerRows, now time.Time) {
	heard := cs.signs[consumer].heard
	last := func(at time.Time) {
		if at.After(heard) {
			heard = at
		}
	}
	for key, c := range cs.checkpoints {
		switch {
		case key.consumer != consumer:
		case control.Is(&c):
			b.Controls++
		default:
			if b.Positions++; c.Session != "" {
				last(c.At)
			}
		}
	}
	for key, at := range cs.kinds {
		if key.consumer == consumer {
			b.Types++
			last(at)
		}
	}
	if b.LastHeartbeat = -1; !heard.IsZero() {
		b.LastHeartbeat = max(0, now.Sub(heard))
	}
}

// Rename moves the rows of a consumer to another name.
func (cs *consumerTable) Rename(was, is string) {
	move(cs.checkpoints,
		func(k checkpointKey, c store.Checkpoint) (checkpointKey, store.Checkpoint, bool) {
			return checkpointKey{is, k.partition}, c, k.consumer == was
		})
	move(cs.kinds, func(k kindKey, at time.Time) (kindKey, time.Time, bool) {
		return kindKey{is, k.Kind}, at, k.consumer == was
	})
	move(cs.signs, func(k string, s sign) (string, sign, bool) { return is, s, k == was })
}
