package sqlitestore

import (
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// ahead has a number for each key. It is the place of the key's previous message in the intake, or -1 if that
// message may not be taken.
type ahead map[[2]string]int64

// turn returns Fresh if m may be taken, otherwise the reason why m may not. The transaction already has the
// file's write lock.
func turn(ctx context.Context, x *sqlexec.Session, m *store.Mark, before ahead) (store.Outcome, error) {
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
