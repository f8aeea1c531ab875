package query

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// scanKept reads a row of the statements Claim or Parked. If the envelope of a message is unreadable, it sets
// Fault.
func scanKept(row sqlexec.Scanner) (p store.Parked, err error) {
	var (
		env, key, data        []byte
		firstAt, lastAt, died *time.Time
		d                     store.Death
		due                   int64
		at                    *string
		failures              string
		now                   time.Time
	)
	if err := row.Scan(&p.Consumer, &p.Source, &p.ID, &p.Attempts, &due, &d.BlocksKey, &firstAt, &p.First.Why,
		&p.First.Host, &lastAt, &p.Last.Why,
		&p.Last.Host, &died, &d.Kind, &d.Fingerprint, &d.Stack, &d.Version, &key, &data, &env, &p.Partition,
		&p.Position, &p.Fault,
		&p.Waiting, &p.Place, &p.Since, &at, &p.Claims, &p.CrashCount, &p.Session, &failures,
		&now); err != nil {
		return p, err
	}
	sqlexec.Handles(&p.Consumer, &p.Source, &p.ID)
	if p.Message, err = column.OpenEnvelope(env, key,
		data); err != nil { // not an error of scanKept, so that the list can continue with other rows
		p.Message, p.Fault = skald.Message{ID: p.ID, Source: p.Source, Key: key, Data: data},
			sqlexec.Fault(err)
	}
	if p.Call, err = column.DecodeCall(at); err != nil {
		p.Fault = sqlexec.Fault(err)
	} else if p.Call != nil {
		p.Call.Age = now.Sub(p.Call.Since)
	}
	p.Failures = column.DecodeFailures(failures)
	p.Since, p.First.At, p.Last.At = p.Since.UTC(), sqlexec.OrZero(firstAt), sqlexec.OrZero(lastAt)
	if died != nil {
		d.At = died.UTC()
		p.Dead = &d
	}
	if p.Dead == nil && !p.Waiting {
		p.Due = time.Duration(due) * time.Microsecond
	}
	return p, nil
}

// joined returns each kind as one text, as the statements compare it.
func joined(kinds []store.Kind) []string {
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = sqlexec.StorableText(k.Topic) + "\x1f" + sqlexec.StorableText(k.Type)
	}
	return out
}

// few is the number of claimed messages after which Claim allocates memory for all requested messages.
const few = 16

// Claim claims due parked messages in one round trip. It writes nothing if no messages are due.
func (c *Parked) Claim(ctx context.Context, w store.ClaimRequest, also ...sqlexec.Call) (store.Claimed,
	error) {
	var out store.Claimed
	var next int64
	most, others, keys := w.ClaimSize, joined(w.Not), 0
	claim := c.pg.Call("Claim", sqlexec.Name(w.Consumer), int32(most.Keys), w.Lease.Microseconds(),
		sqlexec.StorableText(w.Session), others, int32(most.Prefetch), int32(most.PrefetchAll))
	claim.Scan = func(row sqlexec.Scanner) error {
		p, err := scanKept(row)
		if n := len(out.Parked); n >= few && n == cap(out.Parked) {
			// with more than a few messages, a claim usually returns all that were requested
			out.Parked = slices.Grow(out.Parked, most.Keys+most.PrefetchAll-n)
		}
		out.Parked = append(out.Parked, p)
		if !p.Waiting {
			keys++
		}
		return err
	}
	calls := append([]sqlexec.Call{c.pg.Call("Walk"), claim,
		c.pg.Call("NextDue", sqlexec.Name(w.Consumer), others).Into(&next, &out.Admitted)}, also...)
	if err := c.pg.Short(ctx, "claim parked messages", calls...); err != nil {
		return store.Claimed{}, err
	}
	slices.SortFunc(out.Parked, func(a, b store.Parked) int { return cmp.Compare(a.Place, b.Place) })
	switch {
	case keys == most.Keys:
	case next == 0:
		out.Next = -1
	default:
		out.Next = time.Duration(next) * time.Microsecond
	}
	return out, nil
}
