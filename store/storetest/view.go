package storetest

import (
	"testing"
	"time"

	"github.com/skald-go/skald/store"
)

// What the views of a database with SQL say of steps and calls, as lines: a driver's test compares them with what Viewed says.
const (
	StepsView = `SELECT saga || ' ' || state || ' ' || step || ' ' || coalesce(outside_key, '-') || CASE WHEN id IS NULL THEN '' ELSE ' taken' END ||
		CASE WHEN by_id IS NULL THEN '' ELSE ' undone' END || CASE WHEN begun IS NULL THEN '' ELSE ' dated' END FROM skald_steps ORDER BY saga`
	CallsView = `SELECT outside_key || ' ' || topic || ' ' || attempts || CASE WHEN dead_at IS NULL THEN ' tried' ELSE ' dead' END ||
		CASE WHEN seconds BETWEEN 60 AND 360000 THEN ' old' ELSE ' new' END || ' ' || last_error FROM skald_calling ORDER BY outside_key`
)

// Viewed leaves a step of each kind, and calls, and says what the views are to say of them.
func Viewed[TTx any](t *testing.T, d store.Driver[TTx]) (steps, calls []string) {
	t.Helper()
	apply := func(es ...store.Effect) {
		t.Helper()
		stood, err := d.Apply(t.Context(), es...)
		for i, ok := range stood {
			if !ok {
				t.Fatalf("effect %d lost a guard", i)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	commit := func(s store.Step) {
		t.Helper()
		u, err := d.Begin(t.Context(), stepping(s))
		if err == nil {
			err = u.Commit(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	wait := func(saga string, call *store.Call, death *store.Death) store.Parked {
		t.Helper()
		p, step := parked(saga, 1), taking(saga)
		step.Identity, p.Call, p.Dead, p.Last.Why = p.Identity, call, death, "no answer"
		if call != nil {
			step.State, step.OutsideKey = store.StepCalling, call.Key
			commit(step)
			apply(store.Effect{Keep: &store.Keep{Parked: p}})
			return p
		}
		apply(store.Effect{Keep: &store.Keep{Parked: p, Step: &step}})
		return p
	}
	dead := &store.Death{At: time.Now(), Kind: "permanent"}
	done := taking("a")
	done.Begun = time.Now()
	commit(done)
	commit(taking("b"))
	commit(undoing("b"))
	commit(undoing("c"))
	no := taking("d")
	no.State, no.From = store.StepRejected, []store.StepState{store.StepAbsent}
	apply(store.Effect{Step: &no})
	wait("e", nil, nil)
	wait("f", nil, dead)
	dropped := wait("g", nil, dead)
	apply(store.Effect{Free: &store.Free{Consumer: consumer, Identity: dropped.Identity}})
	wait("h", &store.Call{Key: "key-1", Request: "{}", Since: time.Now().Add(-time.Hour)}, nil)
	wait("i", &store.Call{Key: "key-2", Request: "{}", Since: time.Now().Add(time.Minute)}, dead)
	return []string{"a done charge - taken dated", "b undone charge - taken undone", "c barred charge - undone", "d rejected charge - taken", "e parked charge - taken",
			"f dead charge - taken", "g dropped charge - taken", "h calling charge key-1 taken", "i calling charge key-2 taken"},
		[]string{"key-1 orders 1 tried old no answer", "key-2 orders 1 dead new no answer"}
}
