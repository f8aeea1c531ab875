package memstore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/storetest"
)

type database struct {
	s *memstore.Store

	mu       sync.Mutex
	ahead    time.Duration
	sessions []*memstore.Store
}

func open(t testing.TB) storetest.Database[*memstore.Tx] {
	d := &database{}
	d.s = memstore.New(&memstore.Options{Source: storetest.Source, Now: d.now})
	t.Cleanup(func() {
		for _, s := range append(d.sessions, d.s) {
			if n := s.Open(); n > 0 {
				t.Errorf("%d transactions were left open", n)
			}
		}
	})
	return d
}

func (d *database) now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().Add(d.ahead)
}

func (d *database) Age(_ testing.TB, by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ahead += by
}

func (d *database) Driver(testing.TB) store.Driver[*memstore.Tx] {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions = append(d.sessions, d.s.Session())
	return d.sessions[len(d.sessions)-1]
}

func (d *database) Begin(testing.TB) *memstore.Tx  { return d.s.BeginTx() }
func (d *database) Commit(tx *memstore.Tx) error   { return tx.Commit() }
func (d *database) Rollback(tx *memstore.Tx) error { return tx.Rollback() }

func (d *database) Put(tx *memstore.Tx, key, value string) error { return tx.Put(key, value) }

func (d *database) Get(_ testing.TB, key string) (string, bool) {
	v, ok := d.s.User()[key]
	return v, ok
}

func (d *database) Count(testing.TB) storetest.Counts {
	return storetest.Counts{Rows: len(d.s.Rows()), Marks: len(d.s.Marks()), Aside: len(d.s.Asides())}
}

func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Harness[*memstore.Tx]{Open: open, Can: storetest.Can[*memstore.Tx]{
		Rivals: true, StopsCommit: true, Limits: true,
		Poison: func(tx *memstore.Tx) error {
			if err := tx.Insert("taken", "1"); err != nil {
				return err
			}
			return tx.Insert("taken", "2")
		},
	}})
}
