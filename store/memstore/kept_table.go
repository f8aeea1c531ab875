// The files kept*.go have parked messages and dead letters, the order of each key, and the sessions that have
// messages in progress. The methods of messages need no locks and never wait, because the caller has locked
// the keys.

package memstore

import (
	"cmp"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

// messages has all parked messages and dead letters.
type messages struct {
	rows   map[markKey]row
	places int64 // the last used place
}

// newKept returns an empty table.
func newKept() *messages { return &messages{rows: map[markKey]row{}} }

// change is applied when its transaction commits.
type change func(now time.Time)

type row struct {
	store.Parked
	due          time.Time
	prefetchedTo int64 // place of the last message that the last claim prefetched; 0 if it prefetched none
}

func (k row) id() markKey      { return markKey{Consumer: k.Consumer, Identity: k.Identity} }
func (k row) keyLock() keyLock { return keyLockOf(k.Consumer, k.Identity, k.Message.Key) }
func (k row) bytes() int64     { return int64(len(k.Message.Key) + len(k.Message.Data)) }
func (k row) holding() bool    { return k.Message.Key != nil && (k.Dead == nil || k.Dead.BlocksKey) }
func (k row) claimable() bool  { return k.Dead == nil && !k.Waiting }

func byPlace(a, b row) int { return cmp.Compare(a.Place, b.Place) }

// copied returns a copy of the row that the caller may change.
func (k row) copied(now time.Time) store.Parked {
	p := k.Parked
	p.Message = copyMessage(p.Message)
	if p.Due = 0; k.claimable() {
		p.Due = max(0, k.due.Sub(now))
	}
	p.Dead = copyDeath(p.Dead)
	if p.Call = copyCall(p.Call); p.Call != nil {
		p.Call.Age = now.Sub(p.Call.Since)
	}
	return p
}

// Find looks for a message that is parked or dead. If it finds the message, dead says whether the message is
// a dead letter.
func (ms *messages) Find(id markKey) (dead, found bool) {
	k, found := ms.rows[id]
	return k.Dead != nil, found
}

// parkedAs returns a stored message. It returns store.ErrLost if the message does not exist. If attempts is
// not nil, the message must be parked with that number of attempts.
func (ms *messages) parkedAs(id markKey, attempts *int) (row, error) {
	k, there := ms.rows[id]
	if !there || attempts != nil && (k.Dead != nil || k.Attempts != *attempts) {
		return row{}, fmt.Errorf("%s has changed since it was read: %w", id.ID, store.ErrLost)
	}
	return k, nil
}

// checkCall returns store.ErrLost unless the external call of k has the key callKey; "" requires that k has
// no call.
func (k row) checkCall(callKey string) error {
	key := ""
	if k.Call != nil {
		key = k.Call.Key
	}
	if key != callKey {
		return fmt.Errorf("the external call of %s has changed: %w", k.ID, store.ErrLost)
	}
	return nil
}

// checkStillDead returns store.ErrLost unless k is a dead letter that died at the time diedAt. It returns
// nil if diedAt is zero.
func (k row) checkStillDead(diedAt time.Time) error {
	if diedAt.IsZero() || k.Dead != nil && k.Dead.At.Equal(diedAt) {
		return nil
	}
	return fmt.Errorf("%s is not that dead letter any more: %w", k.ID, store.ErrLost)
}

// Belonging adds the number of the consumer's messages to b.
func (ms *messages) Belonging(consumer string, b *store.ConsumerRows) {
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

// Rename moves the rows of a consumer to another name.
func (ms *messages) Rename(was, is string) {
	move(ms.rows, func(id markKey, k row) (markKey, row, bool) {
		of := id.Consumer == was
		id.Consumer, k.Consumer = is, is
		return id, k, of
	})
}
