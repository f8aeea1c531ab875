package query

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// KeyLock returns the number of the advisory lock for a consumer's key, or for a message without a key. If
// two keys share a number, they only wait for each other.
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
		sqlexec.Name(m.ID), sqlexec.MessageKey(m.Key), tries(m)}
}

// tries returns the attempts that m was claimed with; nil for a message from the broker.
func tries(m *store.Mark) *int32 {
	if m.KeyOrder != store.Retrying {
		return nil
	}
	n := int32(m.Attempts)
	return &n
}

// TakeKeyOrders returns the calls that lock the keys of marks in one order, and read whether each message may
// be taken.
func (c *Parked) TakeKeyOrders(marks []store.Mark, found []store.Verdict) []sqlexec.Call {
	var calls []sqlexec.Call
	for i := range marks {
		if marks[i].KeyOrder != store.Anytime {
			take := c.pg.Call("KeyOrder", c.keyOrderArgs(&marks[i])...).Into(&found[i].Outcome)
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

// GuardKeyOrder returns the call that locks the key of a mark, or fails.
func (c *Parked) GuardKeyOrder(m *store.Mark) []sqlexec.Call {
	if m.KeyOrder == store.Anytime {
		return nil
	}
	return []sqlexec.Call{c.pg.Call("GuardKeyOrder", c.keyOrderArgs(m)...)}
}
