package memstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// turn identifies a key of a consumer, or a message without a key. It is the lock of the messages of that
// key.
type turn struct {
	consumer, key string
	store.Identity
}

// turnOf returns the turn of a message.
func turnOf(consumer string, id store.Identity, key []byte) turn {
	if key == nil {
		return turn{consumer: consumer, Identity: id}
	}
	return turn{consumer: consumer, key: "k" + string(key)}
}

// has reports whether t, the turn of a key, is the turn of k. It copies no key, because callers check many
// rows.
func (t turn) has(k *row) bool {
	return k.Message.Key != nil && k.Consumer == t.consumer && string(k.Message.Key) == t.key[1:]
}

// TurnAt returns the turn of a stored message.
func (ms *messages) TurnAt(id markKey) (turn, bool) {
	k, there := ms.rows[id]
	return k.turn(), there
}

// byTurn is the lock order of turns, which prevents deadlocks.
func byTurn(a, b store.Mark) int {
	x, y := turnOf(a.Consumer, a.Identity, a.Key), turnOf(b.Consumer, b.Identity, b.Key)
	return cmp.Or(cmp.Compare(x.consumer, y.consumer), cmp.Compare(x.key, y.key),
		cmp.Compare(x.Source, y.Source), cmp.Compare(x.ID, y.ID))
}

// ahead has a number for each key in an intake: the number of earlier messages of that key in the intake, or
// -1 if the intake may not take one of these messages.
type ahead map[turn]int

func (a ahead) note(t turn, n int) {
	if a != nil {
		a[t] = n
	}
}

// Outcome returns Fresh if an intake may take m. Otherwise it returns the reason: m or an earlier message of
// its key is parked or dead.
func (ms *messages) Outcome(m *store.Mark, before ahead) store.Outcome {
	k, there := ms.rows[keyOf(m)]
	of := turnOf(m.Consumer, m.Identity, m.Key)
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
func (ms *messages) blockers(t turn) (out []row) {
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
func (ms *messages) settle(t turn, now time.Time) {
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
		if k.Message.Key != nil && o.Call != nil && o.turn() == k.turn() && o.Place > k.Place {
			ms.places++
			k.Place = ms.places
			return
		}
	}
}
