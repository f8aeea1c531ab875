package pgstore

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
)

// Kinds notes what a process of a consumer handles, and reads what others do: one round trip.
func (c *core) Kinds(ctx context.Context, consumer string, own []store.Kind, forget time.Duration) (out []store.Kind, err error) {
	read := c.call("Kinds", name(consumer))
	read.scan = func(row scanner) error {
		var k store.Kind
		err := row.Scan(&k.Topic, &k.Type)
		out = append(out, k)
		return err
	}
	calls := []call{read}
	if forget > 0 {
		calls = []call{c.call("ForgetKinds", name(consumer), forget.Microseconds()), read}
	}
	if len(own) > 0 {
		topics, types := make([]string, len(own)), make([]string, len(own))
		for i, k := range own {
			topics[i], types[i] = legible(k.Topic), legible(k.Type)
		}
		calls = append(calls, c.call("NoteKinds", name(consumer), topics, types))
	}
	if err := c.short(ctx, "note types", calls...); err != nil {
		return nil, err
	}
	return out, nil
}

// joined is kinds as a statement compares them.
func joined(kinds []store.Kind) []string {
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = legible(k.Topic) + "\x1f" + legible(k.Type)
	}
	return out
}
