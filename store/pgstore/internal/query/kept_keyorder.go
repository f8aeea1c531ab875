package query

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// KeyLock returns the number of the advisory lock for a key of a consumer, or for a message without a key.
// The number is a hash. If two keys have the same number, their messages wait for each other, which is
// harmless.
func (c *Parked) KeyLock(consumer string, id store.Identity, key []byte) int64 {
	var room [256]byte // enough for most keys, so that no memory is allocated
	b := room[:0]
	part := func(s string) { b = append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...) }
	part(c.pg.Prefix)
	part(sqlexec.Name(consumer))
	if key != nil {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(key))), key...)
	} else {
		part(sqlexec.Name(id.Source))
		part(sqlexec.Name(id.ID))
	}
	sum := sha256.Sum256(b)
	return int64(binary.BigEndian.Uint64(sum[:]))
}

func (c *Parked) keyOrderArgs(m *store.Mark) []any {
	return []any{c.KeyLock(m.Consumer, m.Identity, m.Key), sqlexec.Name(m.Consumer), sqlexec.Name(m.Source),
		sqlexec.Name(m.ID), sqlexec.MessageKey(m.Key), attemptsOf(m)}
}

// attemptsOf returns the number of attempts of the message m at its claim; nil for a message from the
// broker.
func attemptsOf(m *store.Mark) *int32 {
	if m.KeyOrder != store.Retrying {
		return nil
	}
	n := int32(m.Attempts)
	return &n
}

// TakeKeyOrders returns the calls that lock the keys of marks, in the order of the locks. If a message must
// wait for an earlier message of its key, its call writes that to verdicts.
func (c *Parked) TakeKeyOrders(marks []store.Mark, verdicts []store.Verdict) []sqlexec.Call {
	var calls []sqlexec.Call
	for i := range marks {
		if marks[i].KeyOrder != store.Anytime {
			take := c.pg.Call("KeyOrder", c.keyOrderArgs(&marks[i])...).Into(&verdicts[i].Outcome)
			take.With, take.Server = c.pg.SQL["TakeKeyOrder"], true
			calls = append(calls, take)
		}
	}
	if len(calls) > 1 {
		slices.SortStableFunc(calls, func(a, b sqlexec.Call) int {
			return cmp.Compare(a.Args[0].(int64), b.Args[0].(int64)) // the numbers of their locks
		})
		for i := range calls[1:] {
			calls[i+1].With = "" // the first call sets the timeouts
		}
	}
	return calls
}

// GuardKeyOrder returns the call that locks the key of m. The call fails if m must wait for an earlier
// message.
func (c *Parked) GuardKeyOrder(m *store.Mark) []sqlexec.Call {
	if m.KeyOrder == store.Anytime {
		return nil
	}
	return []sqlexec.Call{c.pg.Call("GuardKeyOrder", c.keyOrderArgs(m)...)}
}
