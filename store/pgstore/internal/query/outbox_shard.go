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

// LeaseOptions adds to a lease for the sources that use a replication slot: see package wal.
type LeaseOptions struct {
	First   []sqlexec.Call // calls to run before the look for new rows, in the same transaction
	Standby bool           // while another relay works, this relay releases its shards and takes none
}

// Lease takes, renews and releases shards in one round trip. A renewal writes only the row of the relay, and
// no row of a shard. If ask has a SnapshotBase, Lease also looks for new rows.
func (o *Outbox) Lease(ctx context.Context, ask store.LeaseRequest, too LeaseOptions) (store.Leased, error) {
	if ask.Owner == "" {
		return o.onlyLook(ctx, ask.SnapshotBase, too)
	}
	free := shardIDs(ask.Release)
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
			cmp.Or(ask.Wait, ttl).Microseconds(), too.Standby, ask.BrokerAway.Microseconds(), ask.Yield))
		if len(free) > 0 {
			calls = append(calls, o.pg.Call("FreeShards", ask.Owner, free))
		}
		calls = append(calls, o.pg.Call("TakeShards", ask.Owner, ask.Session, free, too.Standby))
	}
	last := o.pg.Call("Shards", ask.Owner, ask.Session)
	alone := false
	last.Scan = func(row sqlexec.Scanner) error { return leased(row, &got, &alone) }
	if err := o.leaseAndLook(ctx, append(calls, last), ask.SnapshotBase, too, &got); err != nil {
		return store.Leased{}, err
	}
	if ask.Leave || too.Standby && !alone {
		got.Share = 0
	}
	return got, nil
}

// onlyLook looks for new rows after the tick from, in one round trip. If there are no new rows, it writes
// nothing and uses no sequence number.
func (o *Outbox) onlyLook(ctx context.Context, from *string, too LeaseOptions) (got store.Leased, err error) {
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

// leaseAndLook renews the lease and looks for new rows in one transaction, so that an idle database has one
// transaction for each heartbeat. It looks first, because a tick needs a transaction number from after its
// snapshot. A lease before it would already take the number.
func (o *Outbox) leaseAndLook(ctx context.Context, lease []sqlexec.Call, from *string, too LeaseOptions,
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

// leased reads a row of the statement Shards into got. It sets alone to true if no other relay works.
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
		return nil // a waiting relay has no share
	}
	got.Share = shards / max(got.Sessions, 1)
	if place < shards%max(got.Sessions, 1) {
		got.Share++ // the remaining shards go to the first owners by name
	}
	return nil
}

// cursorArgs returns the columns that p changes. nil leaves a column unchanged.
func cursorArgs(p *store.Progress) (base, tip *string, seq *int64, incarnation *string) {
	if p.Cursor != nil {
		base, tip, seq = &p.Cursor.Base, &p.Cursor.Tip, &p.Cursor.Seq
	}
	return base, tip, seq, p.Incarnation
}

// Progress returns the calls that store the progress of a shard. They fail if another relay owns the shard.
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

// CursorsOnly returns the number of effects at the start of es that only move the cursor of a shard, each of
// a different shard.
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

// KeepAll stores the progress of many shards in one statement. It sets the element of stored for each shard
// that the relay still owns.
func (o *Outbox) KeepAll(ctx context.Context, es []store.Effect, stored []bool) error {
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
			stored[i] = true
		}
		return nil
	}
	err := o.pg.Short(ctx, "store progress", keep)
	if err != nil {
		clear(stored)
	}
	return err
}
