package pgstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/held"
	"github.com/skald-go/skald/store"
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
	part(c.prefix)
	part(name(consumer))
	if key != nil {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(key))), key...)
	} else {
		part(name(id.Source))
		part(name(id.ID))
	}
	sum := sha256.Sum256(b)
	return int64(binary.BigEndian.Uint64(sum[:]))
}

func (c *core) turnArgs(m *store.Mark) []any {
	return []any{c.turn(m.Consumer, m.Identity, m.Key), name(m.Consumer), name(m.Source), name(m.ID), keyOf(m.Key), triesOf(m)}
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
func (c *core) takeTurns(marks []store.Mark, found []store.Verdict) []call {
	var calls []call
	for i := range marks {
		if marks[i].KeyOrder != store.Anytime {
			take := c.call("KeyOrder", c.turnArgs(&marks[i])...).into(&found[i].Outcome)
			take.with, take.server = c.sql["TakeKeyOrder"], true
			calls = append(calls, take)
		}
	}
	if len(calls) > 1 {
		slices.SortStableFunc(calls, func(a, b call) int { return compare(a.args[0], b.args[0]) })
		for i := range calls[1:] {
			calls[i+1].with = "" // the session is bound by the first
		}
	}
	return calls
}

func compare(a, b any) int {
	x, y := a.(int64), b.(int64)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

func (c *core) guardTurn(m *store.Mark) []call {
	if m.KeyOrder == store.Anytime {
		return nil
	}
	return []call{c.call("GuardKeyOrder", c.turnArgs(m)...)}
}

// keep are the calls that carry out what e says of kept messages; of freeing it nothing, if that is done for
// many together. What is ours has its key locked.
func (c *core) keep(e *store.Effect, together bool, ours map[taken]bool) (calls []call, err error) {
	change := func(name string, id []any, more ...any) {
		calls = append(calls, c.call("Walk"), c.call("LockParked", id...), c.call(name, append(slices.Clone(id), more...)...))
	}
	if k := e.Park; k != nil && k.Was != nil {
		at, err := held.EncodeCall(k.Call)
		if err != nil {
			return nil, err
		}
		change("UpdateParked", identity(k.Consumer, k.Identity), append(append(stateArgs(&k.Parked), int32(*k.Was), at, int32(k.Claims), int32(k.CrashCount), legible(k.Session), held.CallKey(k.WasCall)),
			claimArgs(k.WasClaim)...)...)
		calls = append(calls, c.call("SettleParked", identity(k.Consumer, k.Identity)...))
	} else if k != nil {
		if calls, err = c.insertKept(k); err != nil {
			return nil, err
		}
	}
	if r := e.Requeue; r != nil {
		id := identity(r.Consumer, r.Identity)
		change("StepBack", id)
		calls = append(calls, c.requeue(r, id), c.call("SettleParked", id...))
	}
	if f := e.Finish; f != nil && !together {
		id := identity(f.Consumer, f.Identity)
		if calls = append(calls, c.call("Walk")); !ours[taken{f.Consumer, f.Identity}] {
			calls = append(calls, c.call("LockParked", id...))
		}
		calls = append(calls, c.call("FinishParked", append(id, narrow(f.Attempts), held.CallKey(f.WasCall), orNull(f.DeadAt), f.Place)...))
	}
	if r := e.Rewind; r != nil {
		calls = append(calls, c.rewind(r))
	}
	calls = append(calls, c.operate(e)...)
	if e.Audit != nil {
		calls = append(calls, c.noting(e.Audit))
	}
	return calls, nil
}

// noting writes down what an operator does.
func (c *core) noting(a *store.Audit) call {
	id := identity(a.Consumer, a.Identity)
	return c.call("InsertAudit", append(append([]any{legible(a.Author), legible(a.Reason), legible(a.Action)}, id...), legible(a.Run))...)
}

func identity(consumer string, id store.Identity) []any {
	return []any{name(consumer), name(id.Source), name(id.ID)}
}

func (c *core) requeue(r *store.Requeue, id []any) call {
	if r.Dead {
		return c.call("RequeueDead", id...)
	}
	return c.call("RequeueParked", append(slices.Clone(id), orNull(r.DeadAt), narrow(r.Attempts))...)
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func narrow(n *int) *int32 {
	if n == nil {
		return nil
	}
	out := int32(*n)
	return &out
}

func (c *core) insertKept(k *store.Park) ([]call, error) {
	m, id := &k.Message, identity(k.Consumer, k.Identity)
	env, err := held.Envelope(m, keyOf(m.Key))
	if err != nil {
		return nil, err
	}
	outside, err := held.EncodeCall(k.Call)
	if err != nil {
		return nil, err
	}
	turn := c.turn(k.Consumer, k.Identity, m.Key)
	calls := []call{c.call("Walk"), c.call("LockKeyOrder", turn)}
	if !k.Marked {
		calls = append(calls, c.call("NoMark", id...))
	}
	args := append(slices.Clone(id), stateArgs(&k.Parked)...)
	args = append(args, keyOf(m.Key), legible(m.Topic), legible(m.Type), m.Data, env, int64(len(m.Key)+len(m.Data)), legible(k.Partition), k.Position, legible(k.Fault), turn)
	if old := k.Instead; old != nil {
		was := identity(k.Consumer, *old)
		return append(calls, c.call("LockParked", was...), c.call("StepBack", was...), c.call("ReplaceParked", append(args, name(old.Source), name(old.ID), outside)...),
			c.call("SettleParked", id...)), nil
	}
	return append(calls, c.call("InsertParked", append(args, k.MostRows, k.MostBytes, outside, int32(k.Claims), int32(k.CrashCount), legible(k.Session))...)), nil
}

// claimArgs are the guard of a claim; nil: none.
func claimArgs(c *store.Claim) []any {
	if c == nil {
		return []any{(*int32)(nil), ""}
	}
	n := int32(c.Claims)
	return []any{&n, legible(c.Session)}
}

// stateArgs are the columns that an attempt changes, from attempts on.
func stateArgs(p *store.Parked) []any {
	d, dead := store.Death{BlocksKey: true}, (*time.Time)(nil)
	if p.Dead != nil {
		d, dead = *p.Dead, &p.Dead.At
	}
	why := func(s string) string { return clipTo(legible(s), maxWhy) }
	return []any{int32(p.Attempts), p.Due.Microseconds(), d.BlocksKey, moment(p.First.At), why(p.First.Why), legible(p.First.Host),
		moment(p.Last.At), why(p.Last.Why), legible(p.Last.Host), dead, legible(d.Kind), legible(d.Fingerprint), clipTo(legible(d.Stack), maxStack), legible(d.Version)}
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// scanKept reads what Claim and Kept return.
func scanKept(row scanner) (p store.Parked, err error) {
	var (
		env, key, data        []byte
		firstAt, lastAt, died *time.Time
		d                     store.Death
		due                   int64
		at                    *string
		now                   time.Time
	)
	if err := row.Scan(&p.Consumer, &p.Source, &p.ID, &p.Attempts, &due, &d.BlocksKey, &firstAt, &p.First.Why, &p.First.Host, &lastAt, &p.Last.Why,
		&p.Last.Host, &died, &d.Kind, &d.Fingerprint, &d.Stack, &d.Version, &key, &data, &env, &p.Partition, &p.Position, &p.Fault,
		&p.Waiting, &p.Place, &p.Since, &at, &p.Claims, &p.CrashCount, &p.Session, &now); err != nil {
		return p, err
	}
	handles(&p.Consumer, &p.Source, &p.ID)
	if p.Message, err = held.Open(env, key, data); err != nil { // it is its own fault: others are read
		p.Message, p.Fault = skald.Message{ID: p.ID, Source: p.Source, Key: key, Data: data}, fault(err)
	}
	if p.Call, err = held.DecodeCall(at); err != nil {
		p.Fault = fault(err)
	} else if p.Call != nil {
		p.Call.Age = now.Sub(p.Call.Since)
	}
	p.Since, p.First.At, p.Last.At = p.Since.UTC(), orZero(firstAt), orZero(lastAt)
	if died != nil {
		d.At = died.UTC()
		p.Dead = &d
	}
	if p.Dead == nil && !p.Waiting {
		p.Due = time.Duration(due) * time.Microsecond
	}
	return p, nil
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
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
func (c *core) claim(ctx context.Context, consumer, sessionID string, most store.ClaimSize, lease time.Duration, not ...store.Kind) (store.Claimed, error) {
	var out store.Claimed
	var next int64
	others, keys := joined(not), 0
	claim := c.call("Claim", name(consumer), int32(most.Keys), lease.Microseconds(), legible(sessionID), others, int32(most.Prefetch), int32(most.PrefetchAll))
	claim.scan = func(row scanner) error {
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
	if err := c.short(ctx, "claim parked messages", c.call("Walk"), claim, c.call("NextDue", name(consumer), others).into(&next)); err != nil {
		return store.Claimed{}, err
	}
	slices.SortFunc(out.Parked, func(a, b store.Parked) int { return compare(a.Place, b.Place) })
	if keys < most.Keys {
		out.Next = time.Duration(next) * time.Microsecond
	}
	return out, nil
}

func (c *core) audited(ctx context.Context, read call) (out []store.Audit, err error) {
	read.scan = func(row scanner) error {
		var a store.Audit
		err := row.Scan(&a.Number, &a.At, &a.Author, &a.Reason, &a.Action, &a.Consumer, &a.Source, &a.ID, &a.Run, &a.Login)
		handles(&a.Consumer, &a.Source, &a.ID)
		a.At = a.At.UTC()
		out = append(out, a)
		return err
	}
	return out, c.short(ctx, "read the audit", read)
}

// keptCount counts what is kept for a consumer.
func (c *core) keptCount(ctx context.Context, consumer string) (n store.Keeping, err error) {
	var oldest int64
	err = c.short(ctx, "count kept messages", c.call("Keeping", name(consumer)).into(&n.Parked, &n.Dead, &n.Bytes, &oldest))
	n.Oldest = time.Duration(oldest) * time.Microsecond
	return n, err
}
