package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
)

// chained is a store that begins a transaction with the commit of another one, as PostgreSQL's driver does.
// It may make either of them fail.
type chained struct {
	store.Driver[tx]
	open, followed atomic.Int64
	mu             sync.Mutex
	dice           *rand.Rand // nil: no call fails
}

type chainedUnit struct {
	store.Unit[tx]
	of *chained
}

var errLine = errors.New("the line broke")

func (c *chained) Outage(err error) bool {
	return errors.Is(err, errLine) || store.Collided(err) || c.Driver.Outage(err)
}

// strikes returns true with a probability of 1/n.
func (c *chained) strikes(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dice != nil && c.dice.IntN(n) == 0
}

func (c *chained) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	u, err := c.Driver.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return &chainedUnit{u, c}, nil
}

func (u *chainedUnit) Commit(ctx context.Context, es ...store.Effect) error {
	u.of.open.Add(-1)
	if u.of.strikes(12) {
		_, _ = u.Unit.Rollback(ctx)
		return errLine
	}
	if u.of.strikes(12) {
		_, _ = u.Unit.Rollback(ctx)
		return collision{} // and is retried in its partition
	}
	if err := u.Unit.Commit(ctx, es...); err != nil || !u.of.strikes(12) {
		return err
	}
	return errLine // though it is committed
}

func (u *chainedUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	u.of.open.Add(-1)
	return u.Unit.Rollback(ctx, instead...)
}

func (u *chainedUnit) Found() store.Found {
	found := u.Unit.Found()
	found.Follows = true
	return found
}

func (u *chainedUnit) CommitThen(ctx context.Context, next store.Intake,
	es ...store.Effect) (store.Unit[tx], error) {
	if err := u.Commit(ctx, es...); err != nil || u.of.strikes(4) {
		return nil, err
	}
	next.Wait = 1 // a commit does not wait for the locks of the next message
	then, err := u.of.Begin(ctx, next)
	if err != nil {
		return nil, nil
	}
	u.of.followed.Add(1)
	return then, nil
}

// If a commit begins the transaction of the next message, each message is handled once and in order. This is
// true if the commit, the next transaction or a handler fails.
func TestEachBeginsWithTheCommitBefore(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		w := newWorld(t, 4)
		db := &chained{Driver: w.db}
		if seed > 0 {
			db.dice = rand.New(rand.NewPCG(seed, 1))
		}
		want := map[string][]string{}
		for n := range 300 {
			key := fmt.Sprint("k", n%40)
			value := fmt.Sprint(n)
			w.publish(w.message(key, value))
			want[key] = append(want[key], value)
		}
		o := &inbox.Options{Workers: 4, Batch: 1, Retry: inbox.Retry{InitialInterval: 1, MaxInterval: 1}}
		in := w.over(db, o, func(ctx context.Context, t tx, m skald.Received[string]) error {
			switch {
			case db.strikes(20):
				return errors.New("this time it fails")
			case db.strikes(40):
				panic("this time it falls")
			}
			return keep(ctx, t, m)
		})
		stop := run(t, in)
		until(t, "all handled", func() bool {
			w.pass(10 * time.Millisecond)
			done := 0
			for _, list := range w.db.User() {
				done += len(strings.Fields(list))
			}
			return done >= 300 && len(w.kept()) == 0 && w.acknowledged()
		})
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			w.expect(key, strings.Join(want[key], " "))
		}
		if n := db.open.Load(); n != 0 {
			t.Errorf("seed %d: %d transactions are left open", seed, n)
		}
		if n := w.backlog(); n != 0 {
			t.Errorf("seed %d: %d deliveries are not acknowledged", seed, n)
		}
		if seed == 0 && db.followed.Load() < 100 {
			t.Errorf("only %d of 300 began with the commit before", db.followed.Load())
		}
	}
}
