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
// no row of a shard. If the request r has a SnapshotBase, Lease also looks for new rows.
func (o *Outbox) Lease(ctx context.Context, r store.LeaseRequest, too LeaseOptions) (store.Leased, error) {
	if r.Owner == "" {
		return o.onlyLook(ctx, r.SnapshotBase, too)
	}
	free := shardIDs(r.Release)
	if len(r.LastKnown) > 0 {
		if err := o.noteMoved(ctx, r.LastKnown); err != nil {
			return store.Leased{}, err
		}
	}
	var got store.Leased
	calls := []sqlexec.Call{o.pg.Call("LockLease"), o.pg.Call("KeepPlace").Into(&got.Timeline),
		o.pg.Call("ForgetRelays", r.Owner)}
	if r.Leave {
		calls = append(calls, o.pg.Call("LeaveRelay", r.Owner, r.Session),
			o.pg.Call("LeaveShards", r.Owner, r.Session))
	} else {
		ttl := cmp.Or(r.TTL, defaultTTL)
		calls = append(calls, o.pg.Call("KeepRelay", r.Owner, r.Session, ttl.Microseconds(),
			cmp.Or(r.Wait, ttl).Microseconds(), too.Standby, r.BrokerAway.Microseconds(), r.Yield))
		if len(free) > 0 {
			calls = append(calls, o.pg.Call("FreeShards", r.Owner, free))
		}
		calls = append(calls, o.pg.Call("TakeShards", r.Owner, r.Session, free, too.Standby))
	}
	last := o.pg.Call("Shards", r.Owner, r.Session)
	alone := false
	last.Scan = func(row sqlexec.Scanner) error { return scanShard(row, &got, &alone) }
	if err := o.leaseAndLook(ctx, append(calls, last), r.SnapshotBase, too, &got); err != nil {
		return store.Leased{}, err
	}
	if r.Leave || too.Standby && !alone {
		got.Share = 0
	}
	return got, nil
}

// onlyLook looks for new rows after the tick base, in one round trip. If there are no new rows, it writes
// nothing and uses no sequence number.
func (o *Outbox) onlyLook(ctx context.Context, base *string, too LeaseOptions) (got store.Leased, err error) {
	if base == nil {
		return got, nil
	}
	l, err := o.Look(*base, "")
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
// transaction for each heartbeat. It looks for rows first, because a tick needs a transaction number from
// after its snapshot. If the lease were first, the transaction would already have its number.
func (o *Outbox) leaseAndLook(ctx context.Context, lease []sqlexec.Call, base *string, too LeaseOptions,
	got *store.Leased) error {
	if base == nil {
		return o.pg.Short(ctx, "lease", append(too.First, lease...)...)
	}
	l, err := o.Look(*base, "")
	if err != nil {
		return fmt.Errorf("lease and tick: %w", err)
	}
	if err := o.pg.Short(ctx, "lease and tick", slices.Concat(too.First, l.Calls, lease)...); err != nil {
		return err
	}
	got.Tip, err = l.Tip()
	return err
}

// scanShard reads a row of the statement Shards into out. It sets single to true if no other relay works.
func scanShard(row sqlexec.Scanner, out *store.Leased, single *bool) error {
	var l store.Shard
	err := row.Scan(&l.ID, &l.First, &l.Last, &l.Epoch, &l.Token, &l.Cursor.Base, &l.Cursor.Tip,
		&l.Cursor.Seq, &l.Incarnation)
	if err != nil {
		return err
	}
	if l.ID >= 0 {
		out.Shards = append(out.Shards, l)
		return nil
	}
	shards, place := l.First, int(l.Epoch)
	out.Sessions, out.Waiting = l.Last, int(l.Cursor.Seq)
	if *single = out.Sessions == 1; l.Token != "" {
		*single = out.Sessions == 0
		return nil // a waiting relay has no share
	}
	out.Share = shards / max(out.Sessions, 1)
	if place < shards%max(out.Sessions, 1) {
		out.Share++ // the remaining shards go to the first owners by name
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

// KeepAll stores the progress of many shards in one statement. It sets the element of stored to true for
// each shard that the relay still owns.
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
