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
	mostPlaces  = 1000 // in lines for entities that are looked at
	mostHeldFor = 5    // entities that are named
)

// heldUp tells of entities that sagas hold which wait for an operator, while others wait for those.
func (d *Doctor) heldUp(ctx context.Context, s store.Lister, counts []store.SagaCounts) error {
	if !slices.ContainsFunc(counts, func(c store.SagaCounts) bool { return c.Stuck+c.Paused > 0 }) {
		return nil
	}
	places, err := store.ListHolds(ctx, s, store.HoldQuery{Limit: mostPlaces})
	if errors.As(err, new(*store.RightError)) {
		return nil // a relay's user may not see that
	}
	places = slices.DeleteFunc(places, func(h store.Hold) bool { return h.Before > 0 || h.Behind == 0 })
	if err != nil || len(places) == 0 {
		return err
	}
	stands, err := standing(ctx, s)
	if err != nil {
		return err
	}
	var held []string
	remedy := ""
	for _, h := range places {
		by := stands[h.Holder]
		if by == nil { // of a family: the one that asked
			by = stands[h.Saga.Name+"\x00"+h.Saga.Key]
		}
		if by == nil {
			continue
		}
		held = append(held, fmt.Sprintf("%s %s by %s %s (%s; %d wait)", shortlog.Shell(h.Space),
			keyWord([]byte(h.Key)), by.name, by.key, by.word, h.Behind))
		if remedy == "" {
			remedy = "run: skald saga explain -- " + shortlog.Shell(by.name) + " " + shortlog.Shell(by.key)
		}
	}
	if len(held) == 0 {
		return nil
	}
	saw := strings.Join(held[:min(len(held), mostHeldFor)], ", ")
	if more := len(held) - mostHeldFor; more > 0 {
		saw += fmt.Sprintf(" and %d more", more)
	}
	d.Say("store", "entities of sagas", skald.Doubtful, "others wait for what these hold: "+saw, remedy)
	return nil
}

// A stand is how a saga stands that waits for an operator.
type stand struct{ name, key, word string }

// standing are the sagas that wait for an operator, by id, and by name and key.
func standing(ctx context.Context, s store.Lister) (map[string]*stand, error) {
	out := map[string]*stand{}
	for _, q := range []store.SagaQuery{{Stuck: true}, {Paused: true}} {
		q.Light, q.Limit, q.Status = true, mostPlaces, []string{"running", "compensating"}
		list, err := store.ListSagas(ctx, s, q)
		if err != nil {
			return nil, err
		}
		for i := range list {
			one := &stand{list[i].Name, list[i].Key, "stuck"}
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
