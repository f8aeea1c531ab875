package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// Memory returns the harness of the driver in memory, with which Differential compares other drivers.
func Memory() Harness[*memstore.Tx] {
	return Harness[*memstore.Tx]{Open: openMemory, Can: Can[*memstore.Tx]{
		Rivals: true, StopsCommit: true, Limits: true,
		Poison: func(tx *memstore.Tx) error {
			if err := tx.Insert("taken", "1"); err != nil {
				return err
			}
			return tx.Insert("taken", "2")
		},
	}}
}

type memory struct {
	s *memstore.Store

	mu       sync.Mutex
	ahead    time.Duration
	sessions []*memstore.Store
}

func openMemory(t testing.TB) Database[*memstore.Tx] {
	d := &memory{}
	d.s = memstore.New(&memstore.Options{Source: Source, Shards: shards, Now: d.now})
	t.Cleanup(func() {
		for _, s := range append(d.sessions, d.s) {
			if n := s.Open(); n > 0 {
				t.Errorf("%d transactions were left open", n)
			}
		}
	})
	return d
}

func (d *memory) now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().Add(d.ahead)
}

func (d *memory) Age(_ testing.TB, by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ahead += by
}

func (d *memory) Driver(testing.TB) store.Driver[*memstore.Tx] {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions = append(d.sessions, d.s.Session())
	return d.sessions[len(d.sessions)-1]
}

func (d *memory) Begin(testing.TB) *memstore.Tx                { return d.s.BeginTx() }
func (d *memory) Commit(tx *memstore.Tx) error                 { return tx.Commit() }
func (d *memory) Rollback(tx *memstore.Tx) error               { return tx.Rollback() }
func (d *memory) Put(tx *memstore.Tx, key, value string) error { return tx.Put(key, value) }

func (d *memory) Get(_ testing.TB, key string) (string, bool) {
	v, ok := d.s.User()[key]
	return v, ok
}

func (d *memory) Count(testing.TB) Counts {
	return Counts{Rows: len(d.s.Rows()), Marks: len(d.s.Marks()), Aside: len(d.s.DeferredRows()),
		Audits: len(d.s.AuditLog())}
}
