package kept

import (
	"slices"
	"time"

	"github.com/skald-go/skald/internal/clip"
	"github.com/skald-go/skald/internal/held"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/column"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
)

const (
	maxWhy   = 4 << 10  // of an error
	maxStack = 16 << 10 // of a panic
)

// Change are the calls that carry out what e says of kept messages; of freeing it nothing, if that is done
// for many together. What is ours has its key locked.
func (c *Kept) Change(e *store.Effect, together bool, ours map[Taken]bool) (calls []pgrun.Call, err error) {
	change := func(name string, id []any, more ...any) {
		calls = append(calls, c.pg.Call("Walk"), c.pg.Call("LockParked", id...),
			c.pg.Call(name, append(slices.Clone(id), more...)...))
	}
	if k := e.Park; k != nil && k.Was != nil {
		at, err := held.EncodeCall(k.Call)
		if err != nil {
			return nil, err
		}
		change("UpdateParked", column.Identity(k.Consumer, k.Identity),
			append(append(stateArgs(&k.Parked), int32(*k.Was), at, int32(k.Claims), int32(k.CrashCount),
				column.Legible(k.Session), held.CallKey(k.WasCall)),
				claimArgs(k.WasClaim)...)...)
		calls = append(calls, c.pg.Call("SettleParked", column.Identity(k.Consumer, k.Identity)...))
	} else if k != nil {
		if calls, err = c.insertKept(k); err != nil {
			return nil, err
		}
	}
	if r := e.Requeue; r != nil {
		id := column.Identity(r.Consumer, r.Identity)
		change("StepBack", id)
		calls = append(calls, c.requeue(r, id), c.pg.Call("SettleParked", id...))
	}
	if f := e.Finish; f != nil && !together {
		id := column.Identity(f.Consumer, f.Identity)
		if calls = append(calls, c.pg.Call("Walk")); !ours[Taken{f.Consumer, f.Identity}] {
			calls = append(calls, c.pg.Call("LockParked", id...))
		}
		calls = append(calls, c.pg.Call("FinishParked",
			append(id, narrow(f.Attempts), held.CallKey(f.WasCall), column.Moment(f.DeadAt), f.Place)...))
	}
	return calls, nil
}

func (c *Kept) requeue(r *store.Requeue, id []any) pgrun.Call {
	if r.Dead {
		return c.pg.Call("RequeueDead", id...)
	}
	return c.pg.Call("RequeueParked", append(slices.Clone(id), column.Moment(r.DeadAt),
		narrow(r.Attempts))...)
}

func narrow(n *int) *int32 {
	if n == nil {
		return nil
	}
	out := int32(*n)
	return &out
}

func (c *Kept) insertKept(k *store.Park) ([]pgrun.Call, error) {
	m, id := &k.Message, column.Identity(k.Consumer, k.Identity)
	env, err := held.Envelope(m, column.MessageKey(m.Key))
	if err != nil {
		return nil, err
	}
	outside, err := held.EncodeCall(k.Call)
	if err != nil {
		return nil, err
	}
	turn := c.Turn(k.Consumer, k.Identity, m.Key)
	calls := []pgrun.Call{c.pg.Call("Walk"), c.pg.Call("LockKeyOrder", turn)}
	if !k.Marked {
		calls = append(calls, c.pg.Call("NoMark", id...))
	}
	args := append(slices.Clone(id), stateArgs(&k.Parked)...)
	args = append(args, column.MessageKey(m.Key), column.Legible(m.Topic), column.Legible(m.Type), m.Data,
		env, int64(len(m.Key)+len(m.Data)), column.Legible(k.Partition), k.Position, column.Legible(k.Fault),
		turn)
	if old := k.Instead; old != nil {
		was := column.Identity(k.Consumer, *old)
		return append(calls, c.pg.Call("LockParked", was...), c.pg.Call("StepBack", was...),
			c.pg.Call("ReplaceParked", append(args, column.Name(old.Source), column.Name(old.ID),
				outside)...),
			c.pg.Call("SettleParked", id...)), nil
	}
	return append(calls, c.pg.Call("InsertParked", append(args, k.MostRows, k.MostBytes, outside,
		int32(k.Claims), int32(k.CrashCount), column.Legible(k.Session))...)), nil
}

// claimArgs are the guard of a claim; nil: none.
func claimArgs(c *store.Claim) []any {
	if c == nil {
		return []any{(*int32)(nil), ""}
	}
	n := int32(c.Claims)
	return []any{&n, column.Legible(c.Session)}
}

// stateArgs are the columns that an attempt changes, from attempts on.
func stateArgs(p *store.Parked) []any {
	d, dead := store.Death{BlocksKey: true}, (*time.Time)(nil)
	if p.Dead != nil {
		d, dead = *p.Dead, &p.Dead.At
	}
	why := func(s string) string { return clip.To(column.Legible(s), maxWhy) }
	return []any{int32(p.Attempts), p.Due.Microseconds(), d.BlocksKey, column.Moment(p.First.At),
		why(p.First.Why), column.Legible(p.First.Host),
		column.Moment(p.Last.At), why(p.Last.Why), column.Legible(p.Last.Host), dead, column.Legible(d.Kind),
		column.Legible(d.Fingerprint), clip.To(column.Legible(d.Stack), maxStack),
		column.Legible(d.Version)}
}
