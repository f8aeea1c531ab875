package kept

import (
	"cmp"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore/internal/mark"
)

// A Turn is a key of a consumer, or a message without a key: whoever changes what is kept of it locks it.
type Turn struct {
	consumer, key string
	store.Identity
}

// TurnOf is the turn of a message.
func TurnOf(consumer string, id store.Identity, key []byte) Turn {
	if key == nil {
		return Turn{consumer: consumer, Identity: id}
	}
	return Turn{consumer: consumer, key: "k" + string(key)}
}

// TurnAt is the turn of a message that is kept.
func (ms *Messages) TurnAt(id mark.Key) (Turn, bool) {
	k, there := ms.rows[id]
	return k.turn(), there
}

// ByTurn is an order in which no two wait for each other in a circle.
func ByTurn(a, b store.Mark) int {
	x, y := TurnOf(a.Consumer, a.Identity, a.Key), TurnOf(b.Consumer, b.Identity, b.Key)
	return cmp.Or(cmp.Compare(x.consumer, y.consumer), cmp.Compare(x.key, y.key),
		cmp.Compare(x.Source, y.Source), cmp.Compare(x.ID, y.ID))
}

// An Ahead is how many messages of each key come before another one in an intake, if they are those that are
// first; -1: they are not.
type Ahead map[Turn]int

func (a Ahead) note(t Turn, n int) {
	if a != nil {
		a[t] = n
	}
}

// Stands tells how a message stands by what is kept; Fresh, if it may be taken.
func (ms *Messages) Stands(m *store.Mark, before Ahead) store.Outcome {
	k, there := ms.rows[mark.KeyOf(m)]
	of := TurnOf(m.Consumer, m.Identity, m.Key)
	holding := ms.behind(of)
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

// behind is what holds a key, in order.
func (ms *Messages) behind(t Turn) (out []row) {
	if t.key == "" {
		return nil
	}
	for _, k := range ms.rows {
		if k.holding() && k.turn() == t {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, byPlace)
	return out
}

// settle makes the first of a key due and the others wait.
func (ms *Messages) settle(t Turn, now time.Time) {
	for i, k := range ms.behind(t) {
		if i == 0 && k.Waiting {
			k.due = now
		}
		k.Waiting = i > 0
		ms.rows[k.id()] = k
	}
}

// stepBack is for a dead letter that had freed its key, before it holds it again. Where one that came behind
// it is at a call, it goes behind all of its key: else each may wait for the other.
func (ms *Messages) stepBack(k *row) {
	for _, o := range ms.rows {
		if k.Message.Key != nil && o.Call != nil && o.turn() == k.turn() && o.Place > k.Place {
			ms.places++
			k.Place = ms.places
			return
		}
	}
}
