package inbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// collision is the error of a database that rolled a transaction back in favor of another.
type collision struct{}

func (collision) Error() string    { return "could not serialize access" }
func (collision) SQLState() string { return "40001" }

// serial is a store with transactions that collide.
type serial struct {
	*memstore.Store
	levels []store.Isolation
}

func (s *serial) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	s.levels = append(s.levels, in.Isolation)
	in.Isolation = store.ReadCommitted
	u, err := s.Store.Begin(ctx, in)
	return serialUnit{u}, err
}

type serialUnit struct{ store.Unit[tx] }

func (serialUnit) Outage(_ context.Context, err error) bool { return store.Collided(err) }

func (s *serial) Outage(err error) bool { return store.Collided(err) || s.Store.Outage(err) }

// If its transaction collided, the inbox retries a message immediately, and no failure counts. If it always
// collides, it waits as in an outage.
func TestCollisionIsTriedAgainInPlace(t *testing.T) {
	for name, batch := range map[string]int{"alone": 1, "in a batch": 10} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			db := &serial{Store: w.db}
			left := map[string]int{"some": 3, "always": 1 << 30}
			in := w.over(db, &inbox.Options{Now: w.clock,
				Transaction: inbox.Transaction{Isolation: store.Serializable}, Batch: batch,
				Workers: 1}, func(ctx context.Context, tx tx, m skald.Received[string]) error {
				if left[m.Value]--; left[m.Value] >= 0 {
					return errors.Join(note(tx, "undone", m.Value), collision{})
				}
				return keep(ctx, tx, m)
			})
			w.publish(w.message("k", "1"), w.message("k", "some"), w.message("k", "3"),
				w.message("l", "always"), w.message("l", "5"), w.message("m", "6"))
			w.quiet(in)
			w.expect("k", "1 some 3")
			w.expect("m", "6")
			w.expect("l", "")
			w.expect("undone", "")
			if n := 1<<30 - left["always"]; n < 5 || n > 30 {
				t.Errorf("it was tried %d times", n)
			}
			if h := in.Health(); h.Failures != 0 || h.Unacknowledged == 0 || len(w.kept()) != 0 {
				t.Errorf("health %+v, kept %v", h, w.kept())
			}
			for _, level := range db.levels {
				if level != store.Serializable {
					t.Errorf("a transaction at level %d", level)
				}
			}
			left["always"] = 0
			w.pass(time.Minute)
			w.quiet(in)
			w.expect("l", "always 5")
		})
	}
}

// A store without isolation levels stops a consumer that asks for one.
func TestIsolationWhereThereIsNone(t *testing.T) {
	w := newWorld(t, 1)
	in := w.inbox(&inbox.Options{Transaction: inbox.Transaction{Isolation: store.Serializable}}, keep)
	w.publish(w.message("k", "1"))
	stop := run(t, in)
	until(t, "the consumer ends", func() bool { return !in.Health().Live })
	if err := stop(); !errors.Is(err, store.ErrNoIsolation) {
		t.Errorf("it ended with %v", err)
	}
}
