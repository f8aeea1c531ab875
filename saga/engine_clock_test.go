package saga_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// TestWaitsByTheStoresClock: a process whose clock is three days off, and which has not read the store's
// clock, still uses correct times for waits, at the start of a saga and after a signal.
func TestWaitsByTheStoresClock(t *testing.T) {
	yes := saga.Signal[bool]{Name: "yes"}
	late := saga.Wait[trip]("late", yes, saga.Timeout(24*time.Hour))
	first := saga.New("first", &saga.Options[trip]{Key: tripKey}, late)
	second := saga.New("second", &saga.Options[trip]{Key: tripKey},
		saga.Wait[trip]("go", saga.Signal[bool]{Name: "go"}), late)
	db := memstore.New(nil)
	e := engineOf(t, db, first, second)
	running(t, e)
	for _, off := range []time.Duration{-72 * time.Hour, 72 * time.Hour} {
		other := func() *saga.Engine[tx] {
			o := &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler),
				Now: func() time.Time { return time.Now().Add(off) }}
			e, err := saga.NewEngine(db, o, first, second)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		waits := func(key string) {
			s := awaitStanding(t, db, key,
				func(s store.Saga) bool {
					return s.Step == "late" && s.Session == "" &&
						s.Due.After(s.Changed)
				})
			var state struct {
				Runs []struct {
					Step string    `json:"step"`
					Due  time.Time `json:"due"`
				} `json:"runs"`
			}
			if err := json.Unmarshal([]byte(s.State), &state); err != nil {
				t.Fatal(err)
			}
			due := state.Runs[len(state.Runs)-1].Due
			if wait := due.Sub(s.Started); wait < 23*time.Hour || wait > 25*time.Hour {
				t.Errorf("a clock %v off: %s waits for %v", off, key, wait)
			}
		}
		begin(t, db, other(), first, trip{ID: fmt.Sprint("first ", off)})
		waits(fmt.Sprint("first ", off))
		key := fmt.Sprint("second ", off)
		begin(t, db, e, second, trip{ID: key})
		awaitStanding(t, db, key, func(s store.Saga) bool { return s.Step == "go" && s.Session == "" })
		if _, err := (saga.Signal[bool]{Name: "go"}).Send(t.Context(), saga.Bind(other(), second), key,
			true); err != nil {
			t.Fatal(err)
		}
		waits(key)
	}
}
