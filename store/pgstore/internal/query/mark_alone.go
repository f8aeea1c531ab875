package query

import (
	"slices"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// takeSingle returns the calls of an intake with the single mark m, or nil if m needs other calls. Usually
// the message is new, or it was claimed and has not changed since the claim. Then two statements are enough,
// and the others are not needed. The transaction must be READ COMMITTED, because the second statement must
// read the rows that a rival wrote before the rival released the key.
func (c *Marks) takeSingle(m *store.Mark, v *store.Verdict) ([]sqlexec.Call, error) {
	tries := attemptsOf(m)
	if m.KeyOrder == store.Anytime || m.Keep > 0 || tries != nil && !m.Held {
		return nil, nil
	}
	args, err := markArgs(m)
	if err != nil {
		return nil, err
	}
	insert := c.pg.Call("InsertArriving", append(slices.Clip(args), sqlexec.MessageKey(m.Key))...)
	if tries != nil {
		insert = c.pg.Call("InsertClaimed", append(slices.Clip(args), sqlexec.MessageKey(m.Key), *tries)...)
	}
	fresh := true
	insert.Done = func(n int64) {
		if fresh = n > 0; !fresh {
			v.Outcome = store.TooOld // unless it is parked, or a mark is found
		}
	}
	not := func() bool { return !fresh }
	turned := func(row sqlexec.Scanner) error {
		var as store.Outcome
		if err := row.Scan(&as); err != nil || fresh || as == store.Fresh {
			return err
		}
		v.Outcome = as
		return nil
	}
	lock := []any{c.kept.KeyLock(m.Consumer, m.Identity, m.Key)}
	calls := []sqlexec.Call{
		{Args: lock, With: c.pg.SQL["TakeArrive"], Server: true},
		insert,
		{SQL: c.pg.SQL["KeyOrder"],
			Args: []any{lock[0], args[0], args[1], args[2], sqlexec.MessageKey(m.Key), tries},
			Scan: turned, Need: not, Also: true},
		c.findMark(args, &fresh, v),
	}
	if at := floorTime(m); at > 0 { // too old takes precedence over waiting
		below := func(sqlexec.Scanner) error {
			if !fresh && v.Outcome == store.Behind {
				v.Outcome = store.TooOld
			}
			return nil
		}
		calls = slices.Insert(calls, 3, sqlexec.Call{SQL: c.pg.SQL["BelowFloor"], Args: []any{args[0], at},
			Scan: below, Need: not, Also: true})
	}
	return calls, nil
}
