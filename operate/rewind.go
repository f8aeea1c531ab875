package operate

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// PositionStore is the part of a store that Rewind, PauseInbox and similar functions need.
type PositionStore interface {
	Applier
	SyncConsumer(ctx context.Context, a store.SyncRequest) (store.SyncResult, error)
}

// Rewound is the result for one partition. The JSON field names are stable.
type Rewound struct {
	Partition string `json:"partition"`
	From      int64  `json:"from"` // -1 means not known
	To        int64  `json:"to"`
	Rewound   bool   `json:"rewound"`
	Why       string `json:"why,omitempty"` // why it was not rewound

	origin string
}

const changedMeanwhile = "it changed meanwhile"

// Rewind moves the positions of a consumer back to these places, each in its own transaction with an audit. A
// running consumer reads from there within seconds. It drops a message with a mark as a duplicate, and puts a
// message that is older than its marks into quarantine. It handles all other messages.
//
// Rewind leaves a partition unchanged if its position is not after the place, and sets Rewound.Why. Confirm
// and Progress of the order count partitions. The result is also valid if the error is a *PartialError.
func Rewind(ctx context.Context, db PositionStore, consumer string, places []broker.Place,
	o Order) ([]Rewound, error) {
	if consumer == "" {
		return nil, &UsageError{Reason: "which consumer?"}
	}
	if err := checkOrder(&o); err != nil {
		return nil, err
	}
	all, err := db.SyncConsumer(ctx, store.SyncRequest{Consumer: consumer})
	if err != nil {
		return nil, err
	}
	if len(all.Checkpoints) == 0 && !o.DryRun {
		return nil, &UnknownConsumerError{Consumer: consumer}
	}
	partitions := compare(all, places)
	if o.DryRun {
		return partitions, nil
	}
	return partitions, rewind(ctx, db, consumer, partitions, &o)
}

// compare returns a result for each place. Its Why is empty if the partition can be rewound.
func compare(all store.SyncResult, places []broker.Place) []Rewound {
	out := []Rewound{}
	for _, p := range places {
		one := Rewound{Partition: p.Partition.Name, From: -1, To: p.Position, origin: p.Partition.Origin,
			Why: "the consumer has no position in this partition"}
		for _, s := range all.Checkpoints {
			if s.Partition != p.Partition.Name {
				continue
			}
			switch one.From = s.Position; {
			case s.Origin != p.Partition.Origin:
				one.From, one.Why = -1, "its position belongs to a deleted topic"
			case s.Position >= 0 && s.Position <= p.Position:
				one.Why = "its position is not after this place"
			default:
				one.Why = ""
			}
		}
		out = append(out, one)
	}
	return out
}

func rewind(ctx context.Context, db PositionStore, consumer string, partitions []Rewound, o *Order) error {
	n := 0
	for _, l := range partitions {
		if l.Why == "" {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	if err := confirm(ctx, o, n); err != nil {
		return err
	}
	done, missed := 0, 0
	for i := range partitions {
		l := &partitions[i]
		if l.Why != "" {
			continue
		}
		applied, err := applyEffect(ctx, db, store.Effect{
			Rewind: &store.Rewind{Consumer: consumer, Partition: l.Partition, Origin: l.origin,
				Position: l.To, Stamp: "rewind-" + rand.Text()},
			Audit: auditOf(o, "rewind", consumer,
				store.Identity{Source: l.Partition, ID: fmt.Sprint(l.To)})})
		if err != nil {
			return fmt.Errorf("partition %s: %w", l.Partition, err)
		}
		if l.Rewound = applied; !applied {
			l.Why = changedMeanwhile
			missed++
		}
		done++
		progress(o, done, n)
	}
	if missed > 0 {
		return &PartialError{Reason: fmt.Sprintf(
			"consumer rewind: %d of %d partitions changed meanwhile: check with --dry-run, and repeat the command",
			missed, len(partitions))}
	}
	return nil
}
