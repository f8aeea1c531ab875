package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

const defaultTTL = 3 * time.Second

// Besides is what a lease or a look does for a source that hears of commits.
type Besides struct {
	First   []sqlexec.Call // in the transaction of the look, before it
	Standby bool           // it takes no shard and gives back what it has, where another relay works
}

// Lease takes, renews and gives back shards: one round trip. A shard belongs to a live relay, so a renewal
// writes one row.
func (o *Outbox) Lease(ctx context.Context, ask store.Ask, too Besides) (store.Leased, error) {
	if ask.Owner == "" {
		return o.onlyLook(ctx, ask.Look, too)
	}
	free := shardIDs(ask.Free)
	if len(ask.LastKnown) > 0 {
		if err := o.noteMoved(ctx, ask.LastKnown); err != nil {
			return store.Leased{}, err
		}
	}
	var got store.Leased
	calls := []sqlexec.Call{o.pg.Call("LockLease"), o.pg.Call("KeepPlace").Into(&got.Timeline),
		o.pg.Call("ForgetRelays", ask.Owner)}
	if ask.Leave {
		calls = append(calls, o.pg.Call("LeaveRelay", ask.Owner, ask.Session),
			o.pg.Call("LeaveShards", ask.Owner, ask.Session))
	} else {
		ttl := cmp.Or(ask.TTL, defaultTTL)
		calls = append(calls, o.pg.Call("KeepRelay", ask.Owner, ask.Session, ttl.Microseconds(),
			cmp.Or(ask.Wait, ttl).Microseconds(), too.Standby, ask.Away.Microseconds(), ask.Yield))
		if len(free) > 0 {
			calls = append(calls, o.pg.Call("FreeShards", ask.Owner, free))
		}
		calls = append(calls, o.pg.Call("TakeShards", ask.Owner, ask.Session, free, too.Standby))
	}
	last := o.pg.Call("Shards", ask.Owner, ask.Session)
	alone := false
	last.Scan = func(row sqlexec.Scanner) error { return leased(row, &got, &alone) }
	if err := o.leaseAndLook(ctx, append(calls, last), ask.Look, too, &got); err != nil {
		return store.Leased{}, err
	}
	if ask.Leave || too.Standby && !alone {
		got.Share = 0
	}
	return got, nil
}

// onlyLook looks for new rows: one round trip. While there are none it writes nothing and draws no number.
func (o *Outbox) onlyLook(ctx context.Context, from *string, too Besides) (got store.Leased, err error) {
	if from == nil {
		return got, nil
	}
	l, err := o.Look(*from, "")
	if err != nil {
		return got, fmt.Errorf("tick: %w", err)
	}
	if err := o.pg.Short(ctx, "tick", append(too.First, l.Calls...)...); err != nil {
		return got, err
	}
	got.Tip, err = l.Tip()
	return got, err
}

// leaseAndLook does both in one transaction, so that an idle database has one for each look. It looks first:
// a tick's number must be drawn after its snapshot, and a lease draws one.
func (o *Outbox) leaseAndLook(ctx context.Context, lease []sqlexec.Call, from *string, too Besides,
	got *store.Leased) error {
	if from == nil {
		return o.pg.Short(ctx, "lease", append(too.First, lease...)...)
	}
	l, err := o.Look(*from, "")
	if err != nil {
		return fmt.Errorf("lease and tick: %w", err)
	}
	if err := o.pg.Short(ctx, "lease and tick", slices.Concat(too.First, l.Calls, lease)...); err != nil {
		return err
	}
	got.Tip, err = l.Tip()
	return err
}

// leased reads a row of Shards, and whether no other relay works.
func leased(row sqlexec.Scanner, got *store.Leased, alone *bool) error {
	var l store.Shard
	err := row.Scan(&l.ID, &l.First, &l.Last, &l.Epoch, &l.Token, &l.Cursor.Base, &l.Cursor.Tip,
		&l.Cursor.Seq, &l.Incarnation)
	if err != nil {
		return err
	}
	if l.ID >= 0 {
		got.Shards = append(got.Shards, l)
		return nil
	}
	shards, place := l.First, int(l.Epoch)
	got.Sessions, got.Waiting = l.Last, int(l.Cursor.Seq)
	if *alone = got.Sessions == 1; l.Token != "" {
		*alone = got.Sessions == 0
		return nil // it waits: no share
	}
	got.Share = shards / max(got.Sessions, 1)
	if place < shards%max(got.Sessions, 1) {
		got.Share++ // what is left over goes to the first owners by name
	}
	return nil
}

// cursorArgs are base, tip, seq and incarnation, nil where they stay.
func cursorArgs(p *store.Progress) (base, tip *string, seq *int64, incarnation *string) {
	if p.Cursor != nil {
		base, tip, seq = &p.Cursor.Base, &p.Cursor.Tip, &p.Cursor.Seq
	}
	return base, tip, seq, p.Incarnation
}

// Progress are the calls that store what a shard's owner reports, or raise.
func (o *Outbox) Progress(p *store.Progress) []sqlexec.Call {
	base, tip, seq, incarnation := cursorArgs(p)
	calls := []sqlexec.Call{o.pg.Call("KeepProgress", int32(p.Shard), p.Epoch, p.Token, base, tip, seq,
		incarnation)}
	for i := range p.Deferred {
		calls = append(calls, o.setAside(&p.Deferred[i])...)
	}
	if len(p.Freed) > 0 {
		calls = append(calls, o.pg.Call("FinishDeferred", p.Freed))
	}
	return calls
}

// CursorsOnly is how many effects at the head of es do no more than move the cursors of different shards.
func CursorsOnly(es []store.Effect) int {
	var shards []int
	for i := range es {
		p := es[i].Shard
		if !column.ShardOnly(es[i]) || len(p.Deferred) > 0 || len(p.Freed) > 0 ||
			slices.Contains(shards, p.Shard) {
			return i
		}
		shards = append(shards, p.Shard)
	}
	return len(es)
}

// KeepAll stores the progress of many shards in one statement.
func (o *Outbox) KeepAll(ctx context.Context, es []store.Effect, stood []bool) error {
	n := len(es)
	ids, epochs, tokens := make([]int32, n), make([]int64, n), make([]string, n)
	bases, tips, incarnations, seqs := make([]*string, n), make([]*string, n), make([]*string, n),
		make([]*int64, n)
	for i := range es {
		p := es[i].Shard
		ids[i], epochs[i], tokens[i] = int32(p.Shard), p.Epoch, p.Token
		bases[i], tips[i], seqs[i], incarnations[i] = cursorArgs(p)
	}
	keep := o.pg.Call("KeepAllProgress", ids, epochs, tokens, bases, tips, seqs, incarnations)
	keep.Scan = func(row sqlexec.Scanner) error {
		var id int32
		if err := row.Scan(&id); err != nil {
			return err
		}
		if i := slices.Index(ids, id); i >= 0 {
			stood[i] = true
		}
		return nil
	}
	err := o.pg.Short(ctx, "keep progress", keep)
	if err != nil {
		clear(stood)
	}
	return err
}
