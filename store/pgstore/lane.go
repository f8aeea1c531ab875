package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

const defaultTTL = 3 * time.Second

// Lease takes, renews and gives back lanes: one round trip. A lane belongs to a live relay, so a renewal writes one row.
func (c *core) Lease(ctx context.Context, ask store.Ask) (store.Leased, error) {
	free := make([]int32, len(ask.Free))
	for i, id := range ask.Free {
		free[i] = int32(id)
	}
	if len(ask.Knew) > 0 {
		if err := c.noteMoved(ctx, ask.Knew); err != nil {
			return store.Leased{}, err
		}
	}
	var got store.Leased
	calls := []call{c.call("LockLease"), c.call("KeepPlace").into(&got.Timeline), c.call("ForgetRelays", ask.Owner)}
	if ask.Leave {
		calls = append(calls, c.call("LeaveRelay", ask.Owner, ask.Life), c.call("LeaveLanes", ask.Owner, ask.Life))
	} else {
		ttl := cmp.Or(ask.TTL, defaultTTL)
		calls = append(calls, c.call("KeepRelay", ask.Owner, ask.Life, ttl.Microseconds(), cmp.Or(ask.Wait, ttl).Microseconds()))
		if len(free) > 0 {
			calls = append(calls, c.call("FreeLanes", ask.Owner, free))
		}
		calls = append(calls, c.call("TakeLanes", ask.Owner, ask.Life, free))
	}
	last := c.call("Lanes", ask.Owner, ask.Life)
	last.scan = func(row scanner) error { return leased(row, &got) }
	if err := c.leaseAndLook(ctx, append(calls, last), ask.Look, &got); err != nil {
		return store.Leased{}, err
	}
	if ask.Leave {
		got.Share = 0
	}
	return got, nil
}

// leaseAndLook looks in a transaction of its own: a tick's number must be drawn behind its snapshot, and a lease has
// drawn one before.
func (c *core) leaseAndLook(ctx context.Context, lease []call, from *string, got *store.Leased) error {
	if from == nil {
		return c.short(ctx, "lease", lease...)
	}
	l, err := c.look(*from)
	if err != nil {
		return fmt.Errorf("lease and tick: %w", err)
	}
	if err := c.short2(ctx, "lease and tick", lease, l.calls); err != nil {
		return err
	}
	got.Tip, err = l.tip()
	return err
}

// leased reads a row of Lanes.
func leased(row scanner, got *store.Leased) error {
	var l store.Lane
	err := row.Scan(&l.ID, &l.First, &l.Last, &l.Epoch, &l.Token, &l.Cursor.Base, &l.Cursor.Tip, &l.Cursor.Seq, &l.Incarnation)
	if err != nil {
		return err
	}
	if l.ID >= 0 {
		got.Lanes = append(got.Lanes, l)
		return nil
	}
	lanes, place := l.First, int(l.Epoch)
	got.Lives, got.Waiting = l.Last, int(l.Cursor.Seq)
	if l.Token != "" {
		return nil // it waits: no share
	}
	got.Share = lanes / max(got.Lives, 1)
	if place < lanes%max(got.Lives, 1) {
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

// progress are the calls that store what a lane's owner reports, or raise.
func (c *core) progress(p *store.Progress) []call {
	base, tip, seq, incarnation := cursorArgs(p)
	calls := []call{c.call("KeepProgress", int32(p.Lane), p.Epoch, p.Token, base, tip, seq, incarnation)}
	for i := range p.Aside {
		calls = append(calls, c.setAside(&p.Aside[i]))
	}
	if len(p.Freed) > 0 {
		calls = append(calls, c.call("FreeAside", p.Freed))
	}
	return calls
}

// cursorsOnly is how many effects at the head of es do no more than move the cursors of different lanes.
func cursorsOnly(es []store.Effect) int {
	var lanes []int
	for i := range es {
		p := es[i].Lane
		if p == nil || es[i].Mark != nil || es[i].Step != nil || len(es[i].Locks) > 0 || len(es[i].Rows) > 0 ||
			len(p.Aside) > 0 || len(p.Freed) > 0 || keeps(&es[i]) || slices.Contains(lanes, p.Lane) {
			return i
		}
		lanes = append(lanes, p.Lane)
	}
	return len(es)
}

// keepAll stores the progress of many lanes in one statement.
func (c *core) keepAll(ctx context.Context, es []store.Effect, stood []bool) error {
	n := len(es)
	ids, epochs, tokens := make([]int32, n), make([]int64, n), make([]string, n)
	bases, tips, incarnations, seqs := make([]*string, n), make([]*string, n), make([]*string, n), make([]*int64, n)
	for i := range es {
		p := es[i].Lane
		ids[i], epochs[i], tokens[i] = int32(p.Lane), p.Epoch, p.Token
		bases[i], tips[i], seqs[i], incarnations[i] = cursorArgs(p)
	}
	keep := c.call("KeepAllProgress", ids, epochs, tokens, bases, tips, seqs, incarnations)
	keep.scan = func(row scanner) error {
		var id int32
		if err := row.Scan(&id); err != nil {
			return err
		}
		if i := slices.Index(ids, id); i >= 0 {
			stood[i] = true
		}
		return nil
	}
	err := c.short(ctx, "keep progress", keep)
	if err != nil {
		clear(stood)
	}
	return err
}
