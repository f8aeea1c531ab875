package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// Errors of a Write of a draft with an ID.
var (
	ErrOtherMessage = errors.New("another message was written under this id: give each message an id of its own, and repeat it unchanged")
	ErrForgotten    = errors.New("it is not known any more whether a message was written under this id, because marks of its time are deleted: " +
		"find out whether the transaction was committed, and write with a new id")
)

// scope is the consumer of the marks of IDs that callers chose. An index over the rows would cover neither
// all leaves of the table nor the rows that retention has deleted.
const scope = "skald.outbox"

// unwritten removes the rows of drafts that were already written under their IDs.
func (o *Outbox[TTx]) unwritten(ctx context.Context, tx TTx, drafts []skald.Draft,
	rows []skald.Message) ([]skald.Message, error) {
	in, place := store.Intake{}, map[string]int{}
	repeats := map[int]bool{} // keyed by index in rows
	var secret []byte
	for i := range drafts {
		if drafts[i].ID == "" {
			continue
		}
		if secret == nil {
			var err error
			if secret, err = o.store.Secret(ctx); err != nil {
				return nil, err
			}
		}
		m := store.Mark{Consumer: scope, Identity: store.Identity{ID: rows[i].ID}, As: store.Done,
			Fingerprint: contentOf(secret, &rows[i])}
		if at, twice := place[m.ID]; !twice {
			place[m.ID] = len(in.Marks)
			in.Marks = append(in.Marks, m)
		} else if repeats[i] = true; in.Marks[at].Fingerprint != m.Fingerprint {
			return nil, failed(&rows[i], ErrOtherMessage)
		}
	}
	if len(in.Marks) == 0 {
		return rows, nil
	}
	found, err := o.store.Enter(ctx, tx, in)
	if err != nil {
		return nil, fmt.Errorf("look for ids: %w", err)
	}
	var out []skald.Message
	for i := range rows {
		if drafts[i].ID != "" {
			at := place[rows[i].ID]
			switch once.Judge(found.Marks[at], in.Marks[at].Fingerprint) {
			case store.Fresh:
			case store.Done:
				continue
			case store.TooOld:
				return nil, failed(&rows[i], ErrForgotten)
			default:
				return nil, failed(&rows[i], ErrOtherMessage)
			}
		}
		if !repeats[i] {
			out = append(out, rows[i])
		}
	}
	return out, nil
}

func failed(m *skald.Message, why error) error {
	return fmt.Errorf("%s of type %q for topic %q: %w", m.ID, m.Type, m.Topic, why)
}

// contentOf returns a fingerprint of m's content, independent of its time and cause.
func contentOf(secret []byte, m *skald.Message) int64 {
	parts := [][]byte{[]byte(m.Topic), []byte(m.Type), m.Key, []byte(m.Subject), []byte(m.ContentType),
		[]byte(m.Schema), m.Data}
	for _, h := range m.Headers {
		parts = append(parts, []byte(h.Name), h.Value)
	}
	return fingerprint.Of(secret, parts...)
}
