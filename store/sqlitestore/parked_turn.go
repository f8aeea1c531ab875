package sqlitestore

import (
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// ahead has a number for each key: the place of the previous message of that key in the intake, or -1 if the
// intake may not take that message.
type ahead map[[2]string]int64

// keyOutcome returns Fresh if an intake may take m. Otherwise it returns the reason: m or an earlier message
// of its key is parked or dead. The transaction must have the write lock of the file.
func keyOutcome(ctx context.Context, x *sqlexec.Session, m *store.Mark, before ahead) (store.Outcome, error) {
	k, there, err := findKept(ctx, x, m.Consumer, m.Identity)
	if err != nil {
		return 0, err
	}
	of := [2]string{m.Consumer, string(m.Key)}
	behind := before[of]
	if m.KeyOrder != store.Retrying {
		behind = 0
	}
	first, err := firstOf(ctx, x, m.Consumer, m.Key, max(behind, 0))
	if err != nil {
		return 0, err
	}
	switch {
	case m.KeyOrder == store.Retrying:
		same := there && !k.dead() && k.attempts == m.Attempts &&
			(m.Key == nil || behind >= 0 && first == k.place)
		if m.Key != nil && before != nil {
			before[of] = -1
			if same {
				before[of] = k.place
			}
		}
		if !same {
			return store.Stale, nil
		}
	case there && k.dead():
		return store.Dead, nil
	case there:
		return store.Waiting, nil
	case first != 0:
		return store.Behind, nil
	}
	return store.Fresh, nil
}
