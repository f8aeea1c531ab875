package query

import (
	"cmp"
	"slices"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// taken identifies a message of an intake. The intake has locked the key of that message.
type taken struct {
	consumer string
	store.Identity
}

// TakenOf returns the messages whose keys the intake with marks has locked, so that finishing them needs no
// lock. It returns nil if es finish no messages.
func TakenOf(marks []store.Mark, es []store.Effect) map[taken]bool {
	if len(marks) == 0 || !slices.ContainsFunc(es, func(e store.Effect) bool { return e.Finish != nil }) {
		return nil
	}
	out := make(map[taken]bool, len(marks))
	for i := range marks {
		if m := &marks[i]; m.KeyOrder != store.Anytime {
			out[taken{m.Consumer, m.Identity}] = true
		}
	}
	return out
}

// FinishUnordered returns the calls that change the parked messages of e, but do not choose the next message
// of their keys. It is for transactions above READ COMMITTED. If a rival has changed these messages, the
// transaction fails, even if its snapshot does not include the change.
func (c *Parked) FinishUnordered(e store.Effect) (calls []sqlexec.Call) {
	if r := e.Requeue; r != nil {
		id := sqlexec.Identity(r.Consumer, r.Identity)
		calls = append(calls, c.pg.Call("Walk"), c.pg.Call("LockParked", id...), c.pg.Call("StepBack", id...),
			c.requeue(r, id))
	}
	if f := e.Finish; f != nil {
		calls = append(calls, c.pg.Call("Walk"), c.pg.Call("TouchParked", finishArgs(f)...))
	}
	return calls
}

func finishArgs(f *store.Finish) []any {
	return append(sqlexec.Identity(f.Consumer, f.Identity), narrow(f.Attempts), column.CallKey(f.WasCall),
		sqlexec.Moment(f.DeadAt), f.Place)
}

// FinishMany returns the calls that finish claimed messages of one consumer together. It returns nil if es
// finish fewer than two messages, or if a message needs its own call.
func (c *Parked) FinishMany(es []store.Effect, ours map[taken]bool) []sqlexec.Call {
	var all []*store.Finish
	for i := range es {
		f := es[i].Finish
		if f == nil {
			continue
		}
		if f.Attempts == nil || !f.DeadAt.IsZero() || f.Place == 0 || len(all) > 0 &&
			f.Consumer != all[0].Consumer {
			return nil
		}
		all = append(all, f)
	}
	if len(all) < 2 {
		return nil
	}
	slices.SortFunc(all, func(a, b *store.Finish) int { return cmp.Compare(a.Place, b.Place) })
	var asked, locked sqlexec.Identities
	var places []int64
	var tries []int32
	var calls []string // the key of the external call of each message
	for i, f := range all {
		if asked.Add(f.Identity, i); !ours[taken{f.Consumer, f.Identity}] {
			locked.Add(f.Identity, i)
		}
		places, tries, calls = append(places, f.Place), append(tries, int32(*f.Attempts)),
			append(calls, column.CallKey(f.WasCall))
	}
	consumer, out := sqlexec.Name(all[0].Consumer), []sqlexec.Call{c.pg.Call("Walk")}
	if len(locked.IDs) > 0 {
		out = append(out, c.pg.Call("LockManyParked", consumer, locked.Sources, locked.IDs))
	}
	return append(out, c.pg.Call("FinishMany", consumer, places, asked.Sources, asked.IDs, tries, calls))
}
