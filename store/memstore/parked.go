package memstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/clip"
	"github.com/skald-go/skald/internal/keptrow"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore/internal/mark"
	"github.com/skald-go/skald/store/memstore/internal/own"
)

// turnKey is the lock of a key of a consumer, or of a message without a key.
type turnKey struct {
	consumer, key string
	store.Identity
}

func turnOf(consumer string, id store.Identity, key []byte) turnKey {
	if key == nil {
		return turnKey{consumer: consumer, Identity: id}
	}
	return turnKey{consumer: consumer, key: "k" + string(key)}
}

type keptRow struct {
	store.Parked
	due   time.Time
	along int64 // the place of the last that was read along with it when it was claimed; 0: none was
}

func (k keptRow) id() mark.Key    { return mark.Key{Consumer: k.Consumer, Identity: k.Identity} }
func (k keptRow) turn() turnKey   { return turnOf(k.Consumer, k.Identity, k.Message.Key) }
func (k keptRow) bytes() int64    { return int64(len(k.Message.Key) + len(k.Message.Data)) }
func (k keptRow) holding() bool   { return k.Message.Key != nil && (k.Dead == nil || k.Dead.BlocksKey) }
func (k keptRow) claimable() bool { return k.Dead == nil && !k.Waiting }

// An ahead is how many messages of each key come before another one in an intake, if they are those that are
// first; -1: they are not.
type ahead map[turnKey]int

// turn locks the key of m and says how m stands; Fresh, if it may be taken.
func (tx *Tx) turn(ctx context.Context, m store.Mark, before ahead, until time.Time) (store.Outcome, error) {
	d := tx.s.db
	if err := d.acquire(ctx, tx, turnOf(m.Consumer, m.Identity, m.Key), until); err != nil {
		return 0, fmt.Errorf("lock key: %w", err)
	}
	k, there := d.kept[mark.Key{Consumer: m.Consumer, Identity: m.Identity}]
	of := turnOf(m.Consumer, m.Identity, m.Key)
	holding := d.behindOf(of)
	switch {
	case m.KeyOrder == store.Retrying:
		n := before[of]
		if !there || k.Dead != nil || k.Attempts != m.Attempts || m.Key != nil &&
			(n < 0 || n >= len(holding) || holding[n].id() != k.id()) {
			before.note(of, -1)
			return store.Stale, nil
		}
		before.note(of, n+1)
	case there && k.Dead != nil:
		return store.Dead, nil
	case there:
		return store.Waiting, nil
	case len(holding) > 0:
		return store.Behind, nil
	}
	return store.Fresh, nil
}

func (a ahead) note(t turnKey, n int) {
	if a != nil {
		a[t] = n
	}
}

// behindOf is what holds a key, in order.
func (d *database) behindOf(t turnKey) (out []keptRow) {
	if t.key == "" {
		return nil
	}
	for _, k := range d.kept {
		if k.holding() && k.turn() == t {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, byPlace)
	return out
}

func byPlace(a, b keptRow) int { return cmp.Compare(a.Place, b.Place) }

// keep checks the guards of e about what is kept, and stages it.
func (tx *Tx) keep(ctx context.Context, e store.Effect, until time.Time) error {
	if e.Park != nil {
		if err := tx.park(ctx, *e.Park, until); err != nil {
			return err
		}
		if err := tx.noteStep(ctx, *e.Park, until); err != nil {
			return err
		}
	}
	if r := e.Requeue; r != nil {
		if err := tx.release(ctx, r, until); err != nil {
			return err
		}
	}
	if f := e.Finish; f != nil {
		k, err := tx.keptAs(ctx, mark.Key{Consumer: f.Consumer, Identity: f.Identity}, f.Attempts, until)
		if err == nil && f.Attempts != nil {
			err = k.isAt(f.WasCall)
		}
		if err == nil {
			err = k.stillDead(f.DeadAt)
		}
		if err == nil && f.Place != 0 && f.Place != k.Place {
			err = fmt.Errorf("%s has another place by now: %w", k.ID, store.ErrLost)
		}
		if err != nil {
			return err
		}
		tx.keeps = append(tx.keeps, func(d *database) { delete(d.kept, k.id()); d.settle(k.turn()) })
	}
	if e.Rewind != nil {
		if err := tx.rewind(*e.Rewind); err != nil {
			return err
		}
	}
	if err := tx.operate(&e); err != nil {
		return err
	}
	if e.Audit != nil {
		a := *e.Audit
		tx.keeps = append(tx.keeps, func(d *database) { d.note(a) })
	}
	return nil
}

// release lets a kept message be tried now.
func (tx *Tx) release(ctx context.Context, r *store.Requeue, until time.Time) error {
	k, err := tx.keptAs(ctx, mark.Key{Consumer: r.Consumer, Identity: r.Identity}, nil, until)
	if r.Dead && (err == nil && k.Dead == nil || errors.Is(err, store.ErrLost)) {
		return nil
	}
	if err == nil {
		err = k.stillDead(r.DeadAt)
	}
	if err == nil && r.Attempts != nil && (k.Dead != nil || k.Attempts < *r.Attempts) {
		err = fmt.Errorf("%s is not parked as it was: %w", r.ID, store.ErrLost)
	}
	if err != nil {
		return err
	}
	back := !k.holding()
	k.Dead, k.Attempts, k.Claims, k.CrashCount, k.due = nil, 0, 0, 0, time.Time{}
	if !k.First.At.IsZero() {
		k.First.At = tx.s.db.now()
	}
	tx.keeps = append(tx.keeps, func(d *database) {
		if back {
			d.stepBack(&k)
		}
		d.kept[k.id()] = k
		d.settle(k.turn())
	})
	return nil
}

// stepBack is for a dead letter that had freed its key, before it holds it again. Where one that came behind
// it is at a call, it goes behind all of its key: else each may wait for the other.
func (d *database) stepBack(k *keptRow) {
	for _, o := range d.kept {
		if k.Message.Key != nil && o.Call != nil && o.turn() == k.turn() && o.Place > k.Place {
			d.places++
			k.Place = d.places
			return
		}
	}
}

// keptAs locks the key of a kept message, which must be there, and parked with those attempts if any are
// asked for.
func (tx *Tx) keptAs(ctx context.Context, id mark.Key, attempts *int, until time.Time) (keptRow, error) {
	d := tx.s.db
	if k, there := d.kept[id]; there {
		if err := d.acquire(ctx, tx, k.turn(), until); err != nil {
			return keptRow{}, fmt.Errorf("lock key: %w", err)
		}
	}
	k, there := d.kept[id]
	if !there || attempts != nil && (k.Dead != nil || k.Attempts != *attempts) {
		return keptRow{}, fmt.Errorf("%s is not kept as it was: %w", id.ID, store.ErrLost)
	}
	return k, nil
}

func (tx *Tx) park(ctx context.Context, p store.Park, until time.Time) error {
	d, back := tx.s.db, false
	k, at := keptRow{Parked: p.Parked}, (*store.Call)(nil)
	k.Message = own.Message(p.Message)
	if p.Was != nil {
		was, err := tx.keptAs(ctx, k.id(), p.Was, until)
		if err != nil {
			return err
		}
		if err := was.isAt(p.WasCall); err != nil {
			return err
		}
		if c := p.WasClaim; c != nil && *c != (store.Claim{Claims: was.Claims, Session: was.Session}) {
			return fmt.Errorf("%s is not claimed as it was: %w", k.ID, store.ErrLost)
		}
		if was.Waiting && was.Call == nil && p.Call != nil {
			return fmt.Errorf("%s is to be at a call, and others of its key are before it: %w", k.ID,
				store.ErrLost)
		}
		at = was.Call
		k.Message, k.Place, k.Since, k.Partition, k.Position, k.Fault = was.Message, was.Place, was.Since,
			was.Partition, was.Position, was.Fault
	} else if err := tx.room(ctx, k, p, until); err != nil {
		return err
	}
	if p.Instead != nil {
		old, err := tx.keptAs(ctx, mark.Key{Consumer: k.Consumer, Identity: *p.Instead}, nil, until)
		if err == nil && old.Call != nil {
			err = fmt.Errorf("%s is at a call: %w", old.ID, store.ErrLost)
		}
		if err != nil {
			return err
		}
		k.Since, back = d.now(), !old.holding()
		// no session has tried the new message
		k.Place, k.Claims, k.CrashCount, k.Session = old.Place, 0, 0, ""
		tx.keeps = append(tx.keeps, func(d *database) { delete(d.kept, old.id()) })
	}
	k.First.Why, k.Last.Why = cut4(k.First.Why), cut4(k.Last.Why)
	if p.Dead != nil {
		dead := *p.Dead
		dead.Stack = clip.To(dead.Stack, 16<<10)
		k.Dead = &dead
	}
	k.Call = own.Call(p.Call)
	if c := k.Call; c != nil && c.Since.IsZero() {
		if c.Since = d.now(); at != nil && at.Key == c.Key {
			c.Since = at.Since
		}
	}
	k.due, k.Due = d.now().Add(p.Due), 0
	tx.keeps = append(tx.keeps, func(d *database) {
		if k.Place == 0 {
			d.places++
			k.Place, k.Since = d.places, d.now()
		}
		if back {
			d.stepBack(&k)
		}
		d.kept[k.id()] = k
		d.settle(k.turn())
	})
	return nil
}

// isAt is the guard of a call by its key; "": of none.
func (k keptRow) isAt(call string) error {
	key := ""
	if k.Call != nil {
		key = k.Call.Key
	}
	if key != call {
		return fmt.Errorf("%s is not at the call that it was at: %w", k.ID, store.ErrLost)
	}
	return nil
}

// room is the guard of what is new: not finished, not kept, and the key is not full.
func (tx *Tx) room(ctx context.Context, k keptRow, p store.Park, until time.Time) error {
	d := tx.s.db
	for _, l := range []lockID{k.turn(), k.id()} {
		if err := d.acquire(ctx, tx, l, until); err != nil {
			return fmt.Errorf("lock key: %w", err)
		}
	}
	if _, done := tx.marks.Get(k.id()); done && !p.Marked {
		return fmt.Errorf("%s is finished: %w", k.ID, store.ErrLost)
	}
	if _, there := d.kept[k.id()]; there {
		return fmt.Errorf("%s is kept: %w", k.ID, store.ErrLost)
	}
	if p.Instead != nil {
		return nil // no more of the key than before
	}
	rows, bytes := int64(0), int64(0)
	for _, o := range d.behindOf(k.turn()) {
		rows, bytes = rows+1, bytes+o.bytes()
	}
	if p.MostRows > 0 && rows >= p.MostRows || p.MostBytes > 0 && bytes >= p.MostBytes {
		return fmt.Errorf("the key of %s is full: %w", k.ID, store.ErrLost)
	}
	return nil
}

// settle makes the first of a key due and the others wait.
func (d *database) settle(t turnKey) {
	for i, k := range d.behindOf(t) {
		if i == 0 && k.Waiting {
			k.due = d.now()
		}
		k.Waiting = i > 0
		d.kept[k.id()] = k
	}
}

func cut4(s string) string { return clip.To(s, 4<<10) }

func (k keptRow) out(now time.Time) store.Parked {
	p := k.Parked
	p.Message = own.Message(p.Message)
	if p.Due = 0; k.claimable() {
		p.Due = max(0, k.due.Sub(now))
	}
	p.Dead = own.Death(p.Dead)
	if p.Call = own.Call(p.Call); p.Call != nil {
		p.Call.Age = now.Sub(p.Call.Since)
	}
	return p
}

func (d *database) keptOf(what store.Sought) (out []keptRow) {
	for _, k := range slices.SortedFunc(maps.Values(d.kept), byPlace) {
		switch {
		case what.Consumer != "" && k.Consumer != what.Consumer,
			what.Identity != nil && k.Identity != *what.Identity,
			what.Key != nil && (k.Message.Key == nil || !bytes.Equal(k.Message.Key, what.Key)),
			what.Fingerprint != "" && (k.Dead == nil || k.Dead.Fingerprint != what.Fingerprint),
			what.Dead != nil && *what.Dead != (k.Dead != nil),
			what.Failed && k.Attempts == 0,
			what.Calling && k.Call == nil,
			k.Place <= what.After:
		default:
			out = append(out, k)
		}
	}
	return out
}

// kept lists kept messages, and says how far it looked where Scan ended the list.
func (s *Store) kept(ctx context.Context, what store.Sought,
	most int) (out []store.Parked, to int64, err error) {
	err = s.enter(ctx, func() error {
		now := s.db.now()
		for i, k := range s.db.keptOf(what) {
			if len(out) == most {
				to = 0
				break
			}
			if what.Scan > 0 && i >= what.Scan {
				break
			}
			if what.Scan > 0 && i == what.Scan-1 {
				to = k.Place
			}
			p := k.out(now)
			if !keptrow.Matches(&what, &p) {
				continue
			}
			if what.Bare {
				p.Message.Data, p.Message.Headers = nil, nil
			}
			out = append(out, p)
		}
		return nil
	})
	return out, to, err
}

// keeping counts what is kept for a consumer.
func (s *Store) keeping(ctx context.Context, consumer string) (n store.Keeping, err error) {
	err = s.enter(ctx, func() error {
		for _, k := range s.db.keptOf(store.Sought{Consumer: consumer}) {
			count(&n, k, s.db.now())
		}
		return nil
	})
	return n, err
}
