// Package saga is the orchestrated sagas in memory, and their definitions. It is data alone: whoever calls
// holds the locks of the sagas, and nothing here waits.
package saga

import (
	"cmp"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore/internal/table"
)

// Sagas are all sagas and definitions.
type Sagas struct {
	rows        map[Key]store.Saga
	definitions map[definitionKey]store.SagaDefinition
	lines       map[Entity][]Place
}

type (
	// A Key is what a saga is locked by.
	Key           struct{ name, key string }
	definitionKey struct{ name, hash string }
)

// KeyOf is the key of a saga.
func KeyOf(name, key string) Key { return Key{name, key} }

// A Locked tells whether a transaction has locked a saga.
type Locked func(Key) bool

// New has no sagas.
func New() *Sagas {
	return &Sagas{rows: map[Key]store.Saga{}, definitions: map[definitionKey]store.SagaDefinition{},
		lines: map[Entity][]Place{}}
}

func byKey(a, b store.Saga) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
}

// ByRef is an order in which no two wait for each other in a circle.
func ByRef(a, b store.SagaRef) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
}

// A View is the sagas as a transaction sees them.
type View struct {
	table.View[Key, store.Saga]
	lines table.View[Entity, []Place]
	all   map[Entity][]Place

	entered []Entity // lines that somebody came to
	left    []Entity // lines that may be empty
}

// View is the sagas as a transaction sees them.
func (ss *Sagas) View() View {
	return View{View: table.See(ss.rows), lines: table.See(ss.lines), all: ss.lines}
}

// Commit shows all that was written to everybody.
func (v *View) Commit() {
	v.View.Commit()
	v.lines.Commit()
	for _, at := range v.left {
		if len(v.all[at]) == 0 {
			delete(v.all, at)
		}
	}
}

// Start writes a new saga, or reads the one that is there.
func (v *View) Start(s store.Saga, now time.Time) (stored store.Saga, fresh bool) {
	at := KeyOf(s.Name, s.Key)
	stored, there := v.Get(at)
	if there && (s.Instead == "" || s.Instead != stored.ID || stored.Ended.IsZero()) {
		return stored, false
	}
	s.Version, s.Standing, s.Due = sagarow.First(&s), sagarow.Standing(s.Standing), now.Add(s.Lease)
	s.Lease, s.Instead, s.Started, s.Changed, s.Ended = 0, "", now, now, time.Time{}
	v.Put(at, s)
	return s, true
}

// Move makes a move of a saga that stands at its version.
func (v *View) Move(m *store.SagaMove, now time.Time) error {
	at := KeyOf(m.Name, m.Key)
	s, there := v.Get(at)
	if !there || s.Version != m.Version {
		return fmt.Errorf("saga %s %s is at %d, not %d: %w", m.Name, m.Key, s.Version, m.Version,
			store.ErrLost)
	}
	v.Put(at, sagarow.Move(s, m, now))
	return nil
}

// Stands tells whether a saga is at the version of ref.
func (v *View) Stands(ref store.SagaRef) bool {
	s, there := v.Get(KeyOf(ref.Name, ref.Key))
	return there && s.Version == ref.Version
}
