package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/store"
)

const (
	maxPlaces    = 1000 // limits the rows of skald_hold, and the sagas, that heldEntities reads
	maxHeldNamed = 5    // limits the entities that a finding names
)

// heldEntities adds a finding for entities that sagas wait for, while the saga that holds the entity waits
// for an operator.
func (d *Doctor) heldEntities(ctx context.Context, s store.Lister, counts []store.SagaCounts) error {
	if !slices.ContainsFunc(counts, func(c store.SagaCounts) bool { return c.Stuck+c.Paused > 0 }) {
		return nil
	}
	places, err := store.ListHolds(ctx, s, store.HoldQuery{Limit: maxPlaces})
	if errors.As(err, new(*store.RightError)) {
		return nil // the user of a relay may not read this table
	}
	places = slices.DeleteFunc(places, func(h store.Hold) bool { return h.Before > 0 || h.Behind == 0 })
	if err != nil || len(places) == 0 {
		return err
	}
	waiting, err := waitingSagas(ctx, s)
	if err != nil {
		return err
	}
	var held []string
	remedy := ""
	for _, h := range places {
		by := waiting[h.Holder]
		if by == nil { // h.Holder is the topmost parent of h.Saga, and only h.Saga itself may wait
			by = waiting[h.Saga.Name+"\x00"+h.Saga.Key]
		}
		if by == nil {
			continue
		}
		held = append(held, fmt.Sprintf("%s %s by %s %s (%s; %d wait)", shortlog.Shell(h.Space),
			shellKey([]byte(h.Key)), by.name, by.key, by.word, h.Behind))
		if remedy == "" {
			remedy = "run: skald saga explain" + sagaArgs(by.name, by.key)
		}
	}
	if len(held) == 0 {
		return nil
	}
	saw := strings.Join(held[:min(len(held), maxHeldNamed)], ", ")
	if more := len(held) - maxHeldNamed; more > 0 {
		saw += fmt.Sprintf(" and %d more", more)
	}
	d.Add("store", "entities of sagas", skald.Doubtful, "other sagas wait for these entities: "+saw, remedy)
	return nil
}

// waitingSaga is a saga that waits for an operator. word is stuck, paused, or both.
type waitingSaga struct{ name, key, word string }

// waitingSagas returns the sagas that wait for an operator. The map has each saga under its ID, and under its
// name and key.
func waitingSagas(ctx context.Context, s store.Lister) (map[string]*waitingSaga, error) {
	out := map[string]*waitingSaga{}
	for _, q := range []store.SagaQuery{{Stuck: true}, {Paused: true}} {
		q.Light, q.Limit, q.Status = true, maxPlaces, []string{"running", "compensating"}
		list, err := store.ListSagas(ctx, s, q)
		if err != nil {
			return nil, err
		}
		for i := range list {
			one := &waitingSaga{list[i].Name, list[i].Key, "stuck"}
			switch {
			case list[i].Stuck && list[i].Paused:
				one.word = "stuck, paused"
			case list[i].Paused:
				one.word = "paused"
			}
			out[list[i].ID], out[one.name+"\x00"+one.key] = one, one
		}
	}
	return out, nil
}
