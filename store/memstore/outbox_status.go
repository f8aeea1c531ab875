package memstore

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// Count adds the unpublished rows and the state of relays to b.
func (o *outboxTable) Count(b *store.Backlog, now time.Time) {
	b.Source, b.Deferred = o.source, int64(len(o.deferred))
	for _, r := range o.rows {
		b.Retained = max(b.Retained, now.Sub(r.at))
		if !o.pending(r) {
			continue
		}
		b.Pending++
		b.Oldest = max(b.Oldest, now.Sub(r.Time)) // r.Time is from the clock of the writer
	}
	relays := map[string]store.RelayProgress{}
	for owner, l := range o.sessions {
		if !l.awaySince.IsZero() && l.until.After(now) {
			away := now.Sub(l.awaySince)
			relays[owner] = store.RelayProgress{Owner: owner, Progress: away, BrokerAway: away}
		}
	}
	for _, l := range o.shards {
		if !o.owned(l, now) {
			b.Free++
		}
		if l.owner == "" {
			continue
		}
		p := relays[l.owner]
		if age := now.Sub(l.changed); p.Shards == 0 || age < p.Progress {
			p.Progress = age
		}
		p.Owner, p.Shards = l.owner, p.Shards+1
		relays[l.owner] = p
	}
	for _, owner := range slices.Sorted(maps.Keys(relays)) {
		b.Relays = append(b.Relays, relays[owner])
	}
}

// Status returns the state of the outbox and of each shard.
func (o *outboxTable) Status(now time.Time) store.OutboxStatus {
	var b store.Backlog
	o.Count(&b, now)
	out := store.OutboxStatus{Pending: b.Pending, Exact: true, Oldest: b.Oldest, Deferred: b.Deferred}
	for _, l := range o.shards {
		one := store.OutboxShard{Shard: l.ID, Epoch: l.Epoch}
		if o.owned(l, now) {
			one.Owner = l.owner
		}
		for _, r := range o.rows {
			if o.shardOf(r.Bucket) == l.ID && o.pending(r) {
				one.Pending++
			}
		}
		out.Shards = append(out.Shards, one)
	}
	return out
}

// owned reports whether a live relay owns a shard.
func (o *outboxTable) owned(l shardRow, now time.Time) bool {
	has, ok := o.sessions[l.owner]
	return ok && has.id == l.session && has.until.After(now)
}

// Waiting lists the unpublished rows, at most limit rows, and as many deferred rows.
func (o *outboxTable) Waiting(limit int, now time.Time) (out []store.WaitingRow) {
	row := func(r *store.Row) store.WaitingRow {
		return store.WaitingRow{Seq: r.Seq, Shard: o.shardOf(r.Bucket), ID: r.ID, Topic: r.Topic,
			Type: r.Type, Key: slices.Clone(r.Key), Written: r.Time, Age: max(now.Sub(r.Time), 0)}
	}
	for _, r := range o.rows {
		if len(out) < limit && o.pending(r) {
			out = append(out, row(&r.Row))
		}
	}
	deferred := slices.Sorted(maps.Keys(o.deferred))
	for _, seq := range deferred[:min(limit, len(deferred))] {
		a := o.deferred[seq]
		w := row(&a.Row)
		w.Deferred, w.Attempts, w.LastError = true, a.Attempts, a.Why
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b store.WaitingRow) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}

// pending reports whether a row is neither published nor deferred.
func (o *outboxTable) pending(r outboxRow) bool {
	_, deferred := o.deferred[r.Seq]
	return !deferred && !o.passed(o.shards[o.shardOf(r.Bucket)], r)
}

// passed reports whether the cursor of a shard has passed r, so that r is published.
func (o *outboxTable) passed(l shardRow, r outboxRow) bool {
	base, err := o.commitOf(l.Cursor.Base)
	if err != nil || r.commit <= base {
		return err == nil
	}
	tip, err := o.commitOf(l.Cursor.Tip)
	return err == nil && r.commit <= tip && r.Seq <= l.Cursor.Seq
}
