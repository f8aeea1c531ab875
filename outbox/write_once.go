package outbox

import (
	"context"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// Errors that Write returns for a draft with an ID.
var (
	ErrOtherMessage = complete.ErrOtherMessage
	ErrForgotten    = complete.ErrForgotten
)

// unwritten returns the rows that were not written before with the ID of their draft. Rows without a draft ID
// are always returned.
func (o *Outbox[TTx]) unwritten(ctx context.Context, tx TTx, drafts []skald.Draft,
	rows []skald.Message) ([]skald.Message, error) {
	in, place := store.Intake{}, map[string]int{}
	repeats := map[int]bool{} // by index in rows: the ID occurs earlier in this call
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
		m := complete.MarkWritten(secret, &rows[i])
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
