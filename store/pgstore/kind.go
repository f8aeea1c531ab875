package pgstore

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
)

var (
	_ store.KindWatcher = (*Store)(nil)
	_ store.KindWatcher = (*SQLStore)(nil)
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

// LeftKinds lists the types of messages that were left to another build, and wait.
func (c *core) LeftKinds(ctx context.Context) (out []store.LeftKind, err error) {
	read := c.call("LeftKinds")
	read.scan = func(row scanner) error {
		var k store.LeftKind
		var heard int64 // milliseconds
		err := row.Scan(&k.Consumer, &k.Topic, &k.Type, &k.Messages, &k.Host, &heard)
		if k.Heard = -1; heard >= 0 {
			k.Heard = time.Duration(heard) * time.Millisecond
		}
		out = append(out, k)
		return err
	}
	if err := c.short(ctx, "look who handles what", read); err != nil {
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
