// This file is the messages in memory that are kept: those that are parked, and dead letters. It knows the
// order of each key, what holds it, and who has what in hand. It is data alone: whoever calls holds the locks
// of the keys, and nothing here waits.

package memstore

import (
	"cmp"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

// messages are all that are kept.
type messages struct {
	rows   map[markKey]row
	places int64 // last number of a message
}

// newKept keeps nothing.
func newKept() *messages { return &messages{rows: map[markKey]row{}} }

// A change is made when the transaction commits that asked for it.
type change func(now time.Time)

type row struct {
	store.Parked
	due   time.Time
	along int64 // the place of the last that was read along with it when it was claimed; 0: none was
}

func (k row) id() markKey     { return markKey{Consumer: k.Consumer, Identity: k.Identity} }
func (k row) turn() turn      { return turnOf(k.Consumer, k.Identity, k.Message.Key) }
func (k row) bytes() int64    { return int64(len(k.Message.Key) + len(k.Message.Data)) }
func (k row) holding() bool   { return k.Message.Key != nil && (k.Dead == nil || k.Dead.BlocksKey) }
func (k row) claimable() bool { return k.Dead == nil && !k.Waiting }

func byPlace(a, b row) int { return cmp.Compare(a.Place, b.Place) }

// out is a row that the caller may keep and change.
func (k row) out(now time.Time) store.Parked {
	p := k.Parked
	p.Message = message(p.Message)
	if p.Due = 0; k.claimable() {
		p.Due = max(0, k.due.Sub(now))
	}
	p.Dead = death(p.Dead)
	if p.Call = call(p.Call); p.Call != nil {
		p.Call.Age = now.Sub(p.Call.Since)
	}
	return p
}

// Find tells whether a message is kept, and whether it is a dead letter.
func (ms *messages) Find(id markKey) (dead, kept bool) {
	k, kept := ms.rows[id]
	return k.Dead != nil, kept
}

// as is a kept message, which must be there, and parked with those attempts if any are asked for.
func (ms *messages) as(id markKey, attempts *int) (row, error) {
	k, there := ms.rows[id]
	if !there || attempts != nil && (k.Dead != nil || k.Attempts != *attempts) {
		return row{}, fmt.Errorf("%s has changed since it was read: %w", id.ID, store.ErrLost)
	}
	return k, nil
}

// isAt is the guard of a call by its key; "": of none.
func (k row) isAt(call string) error {
	key := ""
	if k.Call != nil {
		key = k.Call.Key
	}
	if key != call {
		return fmt.Errorf("%s is not at the call that it was at: %w", k.ID, store.ErrLost)
	}
	return nil
}

// stillDead guards that it is the dead letter that died then; of none, where it is zero.
func (k row) stillDead(died time.Time) error {
	if died.IsZero() || k.Dead != nil && k.Dead.At.Equal(died) {
		return nil
	}
	return fmt.Errorf("%s is not that dead letter any more: %w", k.ID, store.ErrLost)
}

// Belonging counts what a consumer has here into b.
func (ms *messages) Belonging(consumer string, b *store.Belongings) {
	for key, k := range ms.rows {
		switch {
		case key.Consumer != consumer:
		case k.Dead != nil:
			b.Dead++
		default:
			b.Parked++
		}
	}
}

// Rename gives what a consumer has here to another name.
func (ms *messages) Rename(was, is string) {
	move(ms.rows, func(id markKey, k row) (markKey, row, bool) {
		of := id.Consumer == was
		id.Consumer, k.Consumer = is, is
		return id, k, of
	})
}
