package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
)

var errBad = errors.New("a check constraint")

// table applies effects, except those of one key. Its first commit blocks until the test allows it.
type table struct {
	may chan struct{}

	mu      sync.Mutex
	commits []int // effects of each
}

func (t *table) Apply(_ context.Context, es ...store.Effect) ([]bool, error) {
	t.mu.Lock()
	t.commits = append(t.commits, len(es))
	first := len(t.commits) == 1
	t.mu.Unlock()
	if first {
		<-t.may
	}
	stand := make([]bool, len(es))
	for i, e := range es {
		if e.Saga.Key == "bad" {
			return nil, errBad
		}
		stand[i] = e.Saga.Key != "lost"
	}
	return stand, nil
}

func (t *table) Outage(error) bool { return false }

func move(key string) store.Effect {
	return store.Effect{Saga: &store.SagaUpdate{SagaRef: store.SagaRef{Key: key}}}
}

func TestEffectsDuringACommitShareTheNextOne(t *testing.T) {
	db := &table{may: make(chan struct{})}
	w := newGroupCommit(db, time.Minute)
	var runs, writes sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer runs.Wait()
	defer stop()
	runs.Go(func() { w.Run(ctx) })
	write := func(key string, stored bool, fails error) {
		writes.Go(func() {
			if stood, err := w.Write(ctx, move(key)); stood != stored || !errors.Is(err, fails) {
				t.Errorf("%s: it is stored: %t, %v", key, stood, err)
			}
		})
	}
	write("first", true, nil)
	for commits := 0; commits == 0; time.Sleep(time.Millisecond) {
		db.mu.Lock()
		commits = len(db.commits)
		db.mu.Unlock()
	}
	write("a", true, nil)
	write("bad", false, errBad)
	write("lost", false, nil)
	for waits := 0; waits < 3; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		waits = len(w.waits)
		w.mu.Unlock()
	}
	close(db.may)
	writes.Wait()
	// The three moves share a commit. It fails because of one of them, so the writer writes each of them
	// alone.
	if got := db.commits; len(got) != 5 || got[1] != 3 || got[2] != 1 {
		t.Errorf("commits of %v effects", got)
	}
}
