package sagatest

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/skald-go/skald"
)

// Emitted returns the payloads of the events e that the saga's functions wrote to an outbox, in the order of
// their commits. A function must call outbox.Write with its own ctx and transaction.
//
// Check records these messages instead of writing rows, so the database needs no tables of Skald. Emitted
// omits the commands of the saga, because the engine writes them.
func Emitted[T any](end End, e skald.Event[T]) ([]T, error) {
	var out []T
	for i := range end.emitted {
		if m := &end.emitted[i]; m.Topic == e.Topic && m.Type == e.Type {
			got, err := e.Decode(context.Background(), *m)
			if err != nil {
				return nil, fmt.Errorf("decode %s on %s, which a function wrote: %w", e.Type, e.Topic, err)
			}
			out = append(out, got.Value)
		}
	}
	return out, nil
}

// EmitsIfDone promises that a done saga wrote e exactly once, and that a compensated saga did not write e.
// For events of compensated sagas, call Emitted in a Promise.
func EmitsIfDone[T any](e skald.Event[T]) Term { return emits{e.Topic, e.Type} }

type emits struct{ topic, typ string }

func (emits) term() {}

// broken returns a text if the messages of a saga break the promise, or else "".
func (p emits) broken(end End) string {
	want, state := 0, "compensated"
	if end.Done {
		want, state = 1, "done"
	}
	n := 0
	for i := range end.emitted {
		if m := &end.emitted[i]; m.Topic == p.topic && m.Type == p.typ {
			n++
		}
	}
	if n == want {
		return ""
	}
	return fmt.Sprintf("the saga is %s, and its functions wrote the event %s on %s %d times instead of %d", state,
		p.typ, p.topic, n, want)
}

// joined returns the messages ms with the messages that a transaction wrote. Like the outbox, it ignores a
// message with an existing id.
func joined(ms, written []skald.Message) ([]skald.Message, error) {
	for i := range written {
		m := &written[i]
		at := slices.IndexFunc(ms, func(old skald.Message) bool { return old.ID == m.ID })
		switch {
		case at < 0:
			ms = append(ms, *m)
		case ms[at].Topic != m.Topic || ms[at].Type != m.Type || !bytes.Equal(ms[at].Data, m.Data):
			return ms, fmt.Errorf("a function wrote %s on %s under the id %s of another message: give each message an id of its own",
				m.Type, m.Topic, m.ID)
		}
	}
	return ms, nil
}
