package pgstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/held"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/column"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
)

const (
	maxWhy   = 4 << 10  // of an error
	maxStack = 16 << 10 // of a panic
)

// turn is the number of the advisory lock of a consumer's key, or of a message without one. Two that share a
// number only wait for each other.
func (c *core) turn(consumer string, id store.Identity, key []byte) int64 {
	var room [256]byte // enough for most, so that nothing is allocated
	b := room[:0]
	part := func(s string) { b = append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...) }
	part(c.pg.Prefix)
	part(column.Name(consumer))
	if key != nil {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(key))), key...)
	} else {
		part(column.Name(id.Source))
		part(column.Name(id.ID))
	}
	sum := sha256.Sum256(b)
	return int64(binary.BigEndian.Uint64(sum[:]))
}

func (c *core) turnArgs(m *store.Mark) []any {
	return []any{c.turn(m.Consumer, m.Identity, m.Key), column.Name(m.Consumer), column.Name(m.Source),
		column.Name(m.ID), column.MessageKey(m.Key), triesOf(m)}
}

// triesOf is the attempts that m was claimed with; nil: it arrives.
func triesOf(m *store.Mark) *int32 {
	if m.KeyOrder != store.Retrying {
		return nil
	}
	n := int32(m.Attempts)
	return &n
}

// takeTurns are the calls that lock the keys of marks, in one order for all, and say how the messages stand.
func (c *core) takeTurns(marks []store.Mark, found []store.Verdict) []pgrun.Call {
	var calls []pgrun.Call
	for i := range marks {
		if marks[i].KeyOrder != store.Anytime {
			take := c.pg.Call("KeyOrder", c.turnArgs(&marks[i])...).Into(&found[i].Outcome)
			take.With, take.Server = c.pg.SQL["TakeKeyOrder"], true
			calls = append(calls, take)
		}
	}
	if len(calls) > 1 {
		slices.SortStableFunc(calls, func(a, b pgrun.Call) int {
			return cmp.Compare(a.Args[0].(int64), b.Args[0].(int64)) // the numbers of their locks
		})
		for i := range calls[1:] {
			calls[i+1].With = "" // the session is bound by the first
		}
	}
	return calls
}

func (c *core) guardTurn(m *store.Mark) []pgrun.Call {
	if m.KeyOrder == store.Anytime {
		return nil
	}
	return []pgrun.Call{c.pg.Call("GuardKeyOrder", c.turnArgs(m)...)}
}

// keep are the calls that carry out what e says of kept messages; of freeing it nothing, if that is done for
// many together. What is ours has its key locked.
func (c *core) keep(e *store.Effect, together bool, ours map[taken]bool) (calls []pgrun.Call, err error) {
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
		if calls = append(calls, c.pg.Call("Walk")); !ours[taken{f.Consumer, f.Identity}] {
			calls = append(calls, c.pg.Call("LockParked", id...))
		}
		calls = append(calls, c.pg.Call("FinishParked",
			append(id, narrow(f.Attempts), held.CallKey(f.WasCall), column.Moment(f.DeadAt), f.Place)...))
	}
	return calls, nil
}

func (c *core) requeue(r *store.Requeue, id []any) pgrun.Call {
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

func (c *core) insertKept(k *store.Park) ([]pgrun.Call, error) {
	m, id := &k.Message, column.Identity(k.Consumer, k.Identity)
	env, err := held.Envelope(m, column.MessageKey(m.Key))
	if err != nil {
		return nil, err
	}
	outside, err := held.EncodeCall(k.Call)
	if err != nil {
		return nil, err
	}
	turn := c.turn(k.Consumer, k.Identity, m.Key)
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
	why := func(s string) string { return column.ClipTo(column.Legible(s), maxWhy) }
	return []any{int32(p.Attempts), p.Due.Microseconds(), d.BlocksKey, column.Moment(p.First.At),
		why(p.First.Why), column.Legible(p.First.Host),
		column.Moment(p.Last.At), why(p.Last.Why), column.Legible(p.Last.Host), dead, column.Legible(d.Kind),
		column.Legible(d.Fingerprint), column.ClipTo(column.Legible(d.Stack), maxStack),
		column.Legible(d.Version)}
}

// scanKept reads what Claim and Kept return.
func scanKept(row pgrun.Scanner) (p store.Parked, err error) {
	var (
		env, key, data        []byte
		firstAt, lastAt, died *time.Time
		d                     store.Death
		due                   int64
		at                    *string
		now                   time.Time
	)
	if err := row.Scan(&p.Consumer, &p.Source, &p.ID, &p.Attempts, &due, &d.BlocksKey, &firstAt, &p.First.Why,
		&p.First.Host, &lastAt, &p.Last.Why,
		&p.Last.Host, &died, &d.Kind, &d.Fingerprint, &d.Stack, &d.Version, &key, &data, &env, &p.Partition,
		&p.Position, &p.Fault,
		&p.Waiting, &p.Place, &p.Since, &at, &p.Claims, &p.CrashCount, &p.Session, &now); err != nil {
		return p, err
	}
	column.Handles(&p.Consumer, &p.Source, &p.ID)
	if p.Message, err = held.Open(env, key, data); err != nil { // it is its own fault: others are read
		p.Message, p.Fault = skald.Message{ID: p.ID, Source: p.Source, Key: key, Data: data},
			column.Fault(err)
	}
	if p.Call, err = held.DecodeCall(at); err != nil {
		p.Fault = column.Fault(err)
	} else if p.Call != nil {
		p.Call.Age = now.Sub(p.Call.Since)
	}
	p.Since, p.First.At, p.Last.At = p.Since.UTC(), column.OrZero(firstAt), column.OrZero(lastAt)
	if died != nil {
		d.At = died.UTC()
		p.Dead = &d
	}
	if p.Dead == nil && !p.Waiting {
		p.Due = time.Duration(due) * time.Microsecond
	}
	return p, nil
}

// joined is kinds as a statement compares them.
func joined(kinds []store.Kind) []string {
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = column.Legible(k.Topic) + "\x1f" + column.Legible(k.Type)
	}
	return out
}

// few is how many claimed messages make room for all that were asked for.
const few = 16

// Claim takes due work.
func (c *core) Claim(ctx context.Context, w store.Want) (store.Claimed, error) {
	if w.Work != store.Parkeds {
		return store.Claimed{}, fmt.Errorf("claim: work of kind %d is not known to this build", w.Work)
	}
	return c.claim(ctx, w.Consumer, w.Session, w.ClaimSize, w.Lease, w.Not...)
}

// claim takes parked messages that are due: one round trip, which writes nothing where none is.
func (c *core) claim(ctx context.Context, consumer, sessionID string, most store.ClaimSize,
	lease time.Duration, not ...store.Kind) (store.Claimed, error) {
	var out store.Claimed
	var next int64
	others, keys := joined(not), 0
	claim := c.pg.Call("Claim", column.Name(consumer), int32(most.Keys), lease.Microseconds(),
		column.Legible(sessionID), others, int32(most.Prefetch), int32(most.PrefetchAll))
	claim.Scan = func(row pgrun.Scanner) error {
		p, err := scanKept(row)
		if n := len(out.Parked); n >= few && n == cap(out.Parked) {
			// where there are more than a few there are mostly all
			out.Parked = slices.Grow(out.Parked, most.Keys+most.PrefetchAll-n)
		}
		out.Parked = append(out.Parked, p)
		if !p.Waiting {
			keys++
		}
		return err
	}
	if err := c.pg.Short(ctx, "claim parked messages", c.pg.Call("Walk"), claim,
		c.pg.Call("NextDue", column.Name(consumer), others).Into(&next)); err != nil {
		return store.Claimed{}, err
	}
	slices.SortFunc(out.Parked, func(a, b store.Parked) int { return cmp.Compare(a.Place, b.Place) })
	if keys < most.Keys {
		out.Next = time.Duration(next) * time.Microsecond
	}
	return out, nil
}

// keptCount counts what is kept for a consumer.
func (c *core) keptCount(ctx context.Context, consumer string) (n store.Keeping, err error) {
	var oldest int64
	err = c.pg.Short(ctx, "count kept messages", c.pg.Call("Keeping", column.Name(consumer)).Into(&n.Parked,
		&n.Dead, &n.Bytes, &oldest))
	n.Oldest = time.Duration(oldest) * time.Microsecond
	return n, err
}
