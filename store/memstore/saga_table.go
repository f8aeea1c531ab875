// The files saga*.go have the orchestrated sagas and their definitions. The methods of sagaTable and sagaView
// need no locks and never wait, because the caller has locked the sagas.

package memstore

import (
	"cmp"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

// sagaTable has all sagas and definitions.
type sagaTable struct {
	rows        map[sagaKey]store.Saga
	definitions map[definitionKey]store.SagaDefinition
	lines       map[sagaEntity][]place
}

type (
	// sagaKey is the lock of a saga.
	sagaKey       struct{ name, key string }
	definitionKey struct{ name, hash string }
)

// sagaKeyOf returns the key of a saga.
func sagaKeyOf(name, key string) sagaKey { return sagaKey{name, key} }

// locked reports whether a transaction has locked a saga.
type locked func(sagaKey) bool

// newSaga returns an empty table.
func newSaga() *sagaTable {
	return &sagaTable{rows: map[sagaKey]store.Saga{}, definitions: map[definitionKey]store.SagaDefinition{},
		lines: map[sagaEntity][]place{}}
}

func byKey(a, b store.Saga) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
}

// byRef is the lock order of sagas, which prevents deadlocks.
func byRef(a, b store.SagaRef) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
}

// sagaView has the sagas as one transaction reads them.
type sagaView struct {
	tableView[sagaKey, store.Saga]
	lines tableView[sagaEntity, []place]
	all   map[sagaEntity][]place

	entered []sagaEntity // queues that got a new place
	left    []sagaEntity // queues that may be empty
}

// View returns the sagas for a transaction.
func (ss *sagaTable) View() sagaView {
	return sagaView{tableView: newView(ss.rows), lines: newView(ss.lines), all: ss.lines}
}

// Commit makes all writes visible.
func (v *sagaView) Commit() {
	v.tableView.Commit()
	v.lines.Commit()
	for _, at := range v.left {
		if len(v.all[at]) == 0 {
			delete(v.all, at)
		}
	}
}

// Start writes a new saga, or returns the stored saga with the same name and key.
func (v *sagaView) Start(s store.Saga, now time.Time) (stored store.Saga, fresh bool) {
	at := sagaKeyOf(s.Name, s.Key)
	stored, there := v.Get(at)
	if there && (s.Instead == "" || s.Instead != stored.ID || stored.Ended.IsZero()) {
		return stored, false
	}
	s.Version, s.SagaStatus, s.Due = sagarow.First(&s), sagarow.StoredStatus(s.SagaStatus), now.Add(s.Lease)
	s.Lease, s.Instead, s.Started, s.Changed, s.Ended = 0, "", now, now, time.Time{}
	v.Put(at, s)
	return s, true
}

// Move stores the new state of a saga. It returns store.ErrLost if the saga has another version.
func (v *sagaView) Move(m *store.SagaUpdate, now time.Time) error {
	at := sagaKeyOf(m.Name, m.Key)
	s, there := v.Get(at)
	if !there || s.Version != m.Version {
		return fmt.Errorf("saga %s %s is at %d, not %d: %w", m.Name, m.Key, s.Version, m.Version,
			store.ErrLost)
	}
	v.Put(at, sagarow.Move(s, m, now))
	return nil
}

// HasVersion reports whether a saga has the version of ref.
func (v *sagaView) HasVersion(ref store.SagaRef) bool {
	s, there := v.Get(sagaKeyOf(ref.Name, ref.Key))
	return there && s.Version == ref.Version
}
