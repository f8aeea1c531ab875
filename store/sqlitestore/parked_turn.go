package sqlitestore

import (
	"context"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// An ahead is, of each key, the place of the last message that comes before another one in an intake, if
// those are the ones that are first; -1: they are not.
type ahead map[[2]string]int64

// turn says how m stands; Fresh, if it may be taken. The transaction holds the only write lock there is.
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
		stands := there && !k.dead() && k.attempts == m.Attempts &&
			(m.Key == nil || behind >= 0 && first == k.place)
		if m.Key != nil && before != nil {
			before[of] = -1
			if stands {
				before[of] = k.place
			}
		}
		if !stands {
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
