package memstore

import (
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

// parking is a new parked message, or a change to one.
type parking struct {
	ms   *messages
	row  row
	gone *markKey // the message that this one replaces
	back bool     // the replaced message did not block its key
}

// Park checks the guards of p and returns the change. The argument marked says whether the message has a
// mark.
func (ms *messages) Park(p *store.Park, marked bool, now time.Time) (*parking, error) {
	k, at := row{Parked: p.Parked}, (*store.Call)(nil)
	if p.Was == nil {
		if p.Server != "" {
			return nil, fmt.Errorf("park %s on another server: %w", p.ID, store.ErrLost)
		}
		if err := ms.checkRoom(&k, p, marked); err != nil {
			return nil, err
		}
		k.Message = copyMessage(p.Message)
	} else {
		was, err := ms.existing(p)
		if err != nil {
			return nil, err
		}
		at = was.Call
		k.Message, k.Place, k.Since, k.Partition, k.Position, k.Fault = was.Message, was.Place, was.Since,
			was.Partition, was.Position, was.Fault
	}
	k.First.Why, k.Last.Why = column.Clip(k.First.Why, 4<<10), column.Clip(k.Last.Why, 4<<10)
	k.Failures = column.ClipFailures(k.Failures)
	if k.Dead = copyDeath(p.Dead); k.Dead != nil {
		k.Dead.Stack = column.Clip(k.Dead.Stack, 16<<10)
	}
	k.Call = copyCall(p.Call)
	if c := k.Call; c != nil && c.Since.IsZero() {
		if c.Since = now; at != nil && at.Key == c.Key {
			c.Since = at.Since
		}
	}
	k.due, k.Due = now.Add(p.Due), 0
	return &parking{ms: ms, row: k}, nil
}

// existing returns the stored message if the guards of p hold.
func (ms *messages) existing(p *store.Park) (was row, err error) {
	was, err = ms.parkedAs(markKey{Consumer: p.Consumer, Identity: p.Identity}, p.Was)
	if err == nil {
		err = was.checkCall(p.WasCall)
	}
	if err != nil {
		return was, err
	}
	if c := p.WasClaim; c != nil && *c != (store.Claim{Claims: was.Claims, Session: was.Session}) {
		return was, fmt.Errorf("the claim of %s has changed: %w", p.ID, store.ErrLost)
	}
	if was.Waiting && was.Call == nil && p.Call != nil {
		return was, fmt.Errorf("%s cannot get an external call, because others of its key come first: %w", p.ID,
			store.ErrLost)
	}
	return was, nil
}

// checkRoom returns store.ErrLost if a new message is finished, parked or dead, or if its key has no room.
func (ms *messages) checkRoom(k *row, p *store.Park, marked bool) error {
	if marked && !p.Marked {
		return fmt.Errorf("%s has a mark already: %w", k.ID, store.ErrLost)
	}
	if _, there := ms.rows[k.id()]; there {
		return fmt.Errorf("%s is parked or dead already: %w", k.ID, store.ErrLost)
	}
	if p.Instead != nil {
		return nil // replacing a message does not change the number of messages of the key
	}
	rows, bytes := int64(0), int64(0)
	for _, o := range ms.blockers(k.keyLock()) {
		rows, bytes = rows+1, bytes+o.bytes()
	}
	if p.MostRows > 0 && rows >= p.MostRows || p.MostBytes > 0 && bytes >= p.MostBytes {
		return fmt.Errorf("the key of %s is full: %w", k.ID, store.ErrLost)
	}
	return nil
}

// Replace makes p replace the message with the key oldKey. It returns store.ErrLost if that message cannot
// be replaced.
func (p *parking) Replace(oldKey markKey, now time.Time) error {
	old, err := p.ms.parkedAs(oldKey, nil)
	if err == nil && old.Call != nil {
		err = fmt.Errorf("%s has an external call: %w", old.ID, store.ErrLost)
	}
	if err != nil {
		return err
	}
	k := &p.row
	k.Since, p.back, p.gone = now, !old.holding(), &oldKey
	// no session has claimed the new message
	k.Place, k.Claims, k.CrashCount, k.Session = old.Place, 0, 0, ""
	return nil
}

// Put stores the message.
func (p *parking) Put(now time.Time) {
	ms, k := p.ms, p.row
	if p.gone != nil {
		delete(ms.rows, *p.gone)
	}
	if k.Place == 0 {
		ms.places++
		k.Place, k.Since = ms.places, now
	}
	if p.back {
		ms.stepBack(&k)
	}
	ms.rows[k.id()] = k
	ms.settle(k.keyLock(), now)
}
