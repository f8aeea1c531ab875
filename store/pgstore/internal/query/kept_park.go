package query

import (
	"slices"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

const (
	maxWhy   = 4 << 10  // bytes of an error text
	maxStack = 16 << 10 // bytes of a stack
)

// Change returns the calls that apply the changes of e to parked messages. If finished is true, FinishMany
// already returned the calls for the Finish of e. The transaction has already locked the keys of the
// messages in lockedIDs.
func (c *Parked) Change(e *store.Effect, finished bool, lockedIDs map[taken]bool) (calls []sqlexec.Call,
	err error) {
	change := func(name string, id []any, more ...any) {
		calls = append(calls, c.pg.Call("Walk"), c.pg.Call("LockParked", id...),
			c.pg.Call(name, append(slices.Clone(id), more...)...))
	}
	if k := e.Park; k != nil && k.Was != nil {
		at, err := column.EncodeCall(k.Call)
		if err != nil {
			return nil, err
		}
		change("UpdateParked", sqlexec.Identity(k.Consumer, k.Identity),
			append(append(stateArgs(&k.Parked), int32(*k.Was), at, int32(k.Claims), int32(k.CrashCount),
				sqlexec.StorableText(k.Session), column.CallKey(k.WasCall)),
				append(claimArgs(k.WasClaim), column.EncodeFailures(k.Failures))...)...)
		calls = append(calls, c.pg.Call("SettleParked", sqlexec.Identity(k.Consumer, k.Identity)...))
	} else if k != nil {
		if calls, err = c.insertKept(k); err != nil {
			return nil, err
		}
		if k.Server != "" {
			calls = slices.Insert(calls, 0, c.pg.Call("GuardServer", ServerStart(k.Server)))
		}
	}
	if r := e.Requeue; r != nil {
		id := sqlexec.Identity(r.Consumer, r.Identity)
		change("StepBack", id)
		calls = append(calls, c.requeue(r, id), c.pg.Call("SettleParked", id...))
	}
	if f := e.Finish; f != nil && !finished {
		id := sqlexec.Identity(f.Consumer, f.Identity)
		if calls = append(calls, c.pg.Call("Walk")); !lockedIDs[taken{f.Consumer, f.Identity}] {
			calls = append(calls, c.pg.Call("LockParked", id...))
		}
		calls = append(calls, c.pg.Call("FinishParked", finishArgs(f)...))
	}
	return calls, nil
}

func (c *Parked) requeue(r *store.Requeue, id []any) sqlexec.Call {
	if r.Dead {
		return c.pg.Call("RequeueDead", id...)
	}
	return c.pg.Call("RequeueParked", append(slices.Clone(id), sqlexec.Moment(r.DeadAt),
		narrow(r.Attempts))...)
}

// narrow returns n for an integer column.
func narrow(n *int) *int32 {
	if n == nil {
		return nil
	}
	out := int32(*n)
	return &out
}

func (c *Parked) insertKept(k *store.Park) ([]sqlexec.Call, error) {
	m, id := &k.Message, sqlexec.Identity(k.Consumer, k.Identity)
	env, err := column.Envelope(m, sqlexec.MessageKey(m.Key))
	if err != nil {
		return nil, err
	}
	outside, err := column.EncodeCall(k.Call)
	if err != nil {
		return nil, err
	}
	turn := c.KeyLock(k.Consumer, k.Identity, m.Key)
	calls := []sqlexec.Call{c.pg.Call("Walk"), c.pg.Call("LockKeyOrder", turn)}
	if !k.Marked {
		calls = append(calls, c.pg.Call("NoMark", id...))
	}
	args := append(slices.Clone(id), stateArgs(&k.Parked)...)
	args = append(args, sqlexec.MessageKey(m.Key), sqlexec.StorableText(m.Topic),
		sqlexec.StorableText(m.Type), m.Data,
		env, int64(len(m.Key)+len(m.Data)), sqlexec.StorableText(k.Partition), k.Position,
		sqlexec.StorableText(k.Fault),
		turn)
	if old := k.Instead; old != nil {
		was := sqlexec.Identity(k.Consumer, *old)
		return append(calls, c.pg.Call("LockParked", was...), c.pg.Call("StepBack", was...),
			c.pg.Call("ReplaceParked", append(args, sqlexec.Name(old.Source), sqlexec.Name(old.ID),
				outside, column.EncodeFailures(k.Failures))...),
			c.pg.Call("SettleParked", id...)), nil
	}
	return append(calls, c.pg.Call("InsertParked", append(args, k.MostRows, k.MostBytes, outside,
		int32(k.Claims), int32(k.CrashCount), sqlexec.StorableText(k.Session),
		column.EncodeFailures(k.Failures))...)), nil
}

// claimArgs returns the arguments of the guard that a message is still claimed by c. nil means no guard.
func claimArgs(c *store.Claim) []any {
	if c == nil {
		return []any{(*int32)(nil), ""}
	}
	n := int32(c.Claims)
	return []any{&n, sqlexec.StorableText(c.Session)}
}

// stateArgs returns the values of the columns that an attempt changes, beginning with attempts.
func stateArgs(p *store.Parked) []any {
	d, dead := store.Death{BlocksKey: true}, (*time.Time)(nil)
	if p.Dead != nil {
		d, dead = *p.Dead, &p.Dead.At
	}
	why := func(s string) string { return column.Clip(sqlexec.StorableText(s), maxWhy) }
	return []any{int32(p.Attempts), p.Due.Microseconds(), d.BlocksKey, sqlexec.Moment(p.First.At),
		why(p.First.Why), sqlexec.StorableText(p.First.Host),
		sqlexec.Moment(p.Last.At), why(p.Last.Why), sqlexec.StorableText(p.Last.Host), dead,
		sqlexec.StorableText(d.Kind),
		sqlexec.StorableText(d.Fingerprint), column.Clip(sqlexec.StorableText(d.Stack), maxStack),
		sqlexec.StorableText(d.Version)}
}
