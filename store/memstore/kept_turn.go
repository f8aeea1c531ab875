package memstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// keyLock identifies a key of a consumer, or a message without a key. A transaction locks it before it
// changes messages of that key.
type keyLock struct {
	consumer, key string
	store.Identity
}

// keyLockOf returns the key lock of a message.
func keyLockOf(consumer string, id store.Identity, key []byte) keyLock {
	if key == nil {
		return keyLock{consumer: consumer, Identity: id}
	}
	return keyLock{consumer: consumer, key: "k" + string(key)}
}

// has reports whether k is a message of the key of t. It copies no key, because callers check many rows.
func (t keyLock) has(k *row) bool {
	return k.Message.Key != nil && k.Consumer == t.consumer && string(k.Message.Key) == t.key[1:]
}

// KeyLockAt returns the key lock of a stored message.
func (ms *messages) KeyLockAt(id markKey) (keyLock, bool) {
	k, there := ms.rows[id]
	return k.keyLock(), there
}

// byKeyLock is the order in which transactions lock keys. The fixed order prevents deadlocks.
func byKeyLock(a, b store.Mark) int {
	x, y := keyLockOf(a.Consumer, a.Identity, a.Key), keyLockOf(b.Consumer, b.Identity, b.Key)
	return cmp.Or(cmp.Compare(x.consumer, y.consumer), cmp.Compare(x.key, y.key),
		cmp.Compare(x.Source, y.Source), cmp.Compare(x.ID, y.ID))
}

// ahead has a number for each key in an intake: the number of earlier messages of that key in the intake, or
// -1 if the intake may not take one of these messages.
type ahead map[keyLock]int

func (a ahead) note(t keyLock, n int) {
	if a != nil {
		a[t] = n
	}
}

// Outcome returns Fresh if an intake may take m. Otherwise it returns the reason: m or an earlier message of
// its key is parked or dead.
func (ms *messages) Outcome(m *store.Mark, before ahead) store.Outcome {
	k, there := ms.rows[keyOf(m)]
	of := keyLockOf(m.Consumer, m.Identity, m.Key)
	holding := ms.blockers(of)
	switch {
	case m.KeyOrder == store.Retrying:
		n := before[of]
		if !there || k.Dead != nil || k.Attempts != m.Attempts || m.Key != nil &&
			(n < 0 || n >= len(holding) || holding[n].id() != k.id()) {
			before.note(of, -1)
			return store.Stale
		}
		before.note(of, n+1)
	case there && k.Dead != nil:
		return store.Dead
	case there:
		return store.Waiting
	case len(holding) > 0:
		return store.Behind
	}
	return store.Fresh
}

// blockers returns the messages that block a key, in order.
func (ms *messages) blockers(t keyLock) (out []row) {
	if t.key == "" {
		return nil
	}
	for _, k := range ms.rows {
		if k.holding() && t.has(&k) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, byPlace)
	return out
}

// settle makes the first message of a key due, and makes the others wait.
func (ms *messages) settle(t keyLock, now time.Time) {
	for i, k := range ms.blockers(t) {
		if i == 0 && k.Waiting {
			k.due = now
		}
		k.Waiting = i > 0
		ms.rows[k.id()] = k
	}
}

// stepBack prepares a dead letter k that did not block its key, so that it can block the key again. If a
// later message of the key has an external call, stepBack moves k to the end of the key. Otherwise both could
// wait for each other.
func (ms *messages) stepBack(k *row) {
	for _, o := range ms.rows {
		if k.Message.Key != nil && o.Call != nil && o.keyLock() == k.keyLock() && o.Place > k.Place {
			ms.places++
			k.Place = ms.places
			return
		}
	}
}
