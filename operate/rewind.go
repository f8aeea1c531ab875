package operate

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// A Positions is what the verbs on positions ask of a store.
type Positions interface {
	Applier
	Attend(ctx context.Context, a store.Attend) (store.Attended, error)
}

// A Rewound is what became of a partition: its names in JSON are stable.
type Rewound struct {
	Partition string `json:"partition"`
	From      int64  `json:"from"` // -1: not known
	To        int64  `json:"to"`
	Rewound   bool   `json:"rewound"`
	Why       string `json:"why,omitempty"` // it is not

	origin string
}

const changedMeanwhile = "it changed meanwhile"

// Rewind has a consumer read partitions again from these places on: their positions are set back in its
// database, each in a transaction with its audit, and a running consumer starts there within seconds. What
// has a mark is dropped as a repeat; the rest is taken or, if it is older than marks are kept, goes into
// quarantine. A partition that is not farther is left, and says why. Confirm and Progress count partitions.
// With a *PartlyError the report is valid, too.
func Rewind(ctx context.Context, db Positions, consumer string, places []broker.Place,
	o Order) ([]Rewound, error) {
	if consumer == "" {
		return nil, &UsageError{What: "which consumer?"}
	}
	if err := checkOrder(&o); err != nil {
		return nil, err
	}
	all, err := db.Attend(ctx, store.Attend{Consumer: consumer})
	if err != nil {
		return nil, err
	}
	if len(all.Checkpoints) == 0 && !o.DryRun {
		return nil, &UnknownConsumerError{Consumer: consumer}
	}
	partitions := compared(all, places)
	if o.DryRun {
		return partitions, nil
	}
	return partitions, rewind(ctx, db, consumer, partitions, &o)
}

// compared says which partitions can be set back.
func compared(all store.Attended, places []broker.Place) []Rewound {
	out := []Rewound{}
	for _, p := range places {
		one := Rewound{Partition: p.Partition.Name, From: -1, To: p.Position, origin: p.Partition.Origin,
			Why: "the consumer has not had this partition yet"}
		for _, s := range all.Checkpoints {
			if s.Partition != p.Partition.Name {
				continue
			}
			switch one.From = s.Position; {
			case s.Origin != p.Partition.Origin:
				one.From, one.Why = -1, "its position is that of a topic that is not there any more"
			case s.Position >= 0 && s.Position <= p.Position:
				one.Why = "it is not farther"
			default:
				one.Why = ""
			}
		}
		out = append(out, one)
	}
	return out
}

func rewind(ctx context.Context, db Positions, consumer string, partitions []Rewound, o *Order) error {
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
		stood, err := applyEffect(ctx, db, store.Effect{
			Rewind: &store.Rewind{Consumer: consumer, Partition: l.Partition, Origin: l.origin,
				Position: l.To, Stamp: "rewind-" + rand.Text()},
			Audit: auditOf(o, "rewind", consumer,
				store.Identity{Source: l.Partition, ID: fmt.Sprint(l.To)})})
		if err != nil {
			return fmt.Errorf("partition %s: %w", l.Partition, err)
		}
		if l.Rewound = stood; !stood {
			l.Why = changedMeanwhile
			missed++
		}
		done++
		progress(o, done, n)
	}
	if missed > 0 {
		return &PartlyError{What: fmt.Sprintf(
			"inbox rewind: %d of %d partitions changed meanwhile: look with --dry-run, and type it again",
			missed, len(partitions))}
	}
	return nil
}
