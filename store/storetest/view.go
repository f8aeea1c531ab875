package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
)

// These constants are the expected content of the views of a database with SQL, as lines. A driver's test
// compares its views with Keyed or Viewed. A result is bytes; KeysView shows it as text.
const (
	KeysView = `SELECT consumer || ' ' || source || ' ' || key || ' ' || status || ' ' || coalesce(CAST(code AS text), '-') || ' ' ||
		coalesce(CAST(result AS text), '-') || ' ' || coalesce(reason, '-') || ' ' || coalesce(CAST(fingerprint AS text), '-') ||
		CASE WHEN at > '2020-01-01' THEN ' dated' ELSE '' END FROM skald_keys ORDER BY arrival`
	StepsView = `SELECT saga || ' ' || state || ' ' || step || ' ' || coalesce(outside_key, '-') || CASE WHEN id IS NULL THEN '' ELSE ' taken' END ||
		CASE WHEN by_id IS NULL THEN '' ELSE ' undone' END || CASE WHEN begun IS NULL THEN '' ELSE ' dated' END FROM skald_steps ORDER BY saga`
	CallsView = `SELECT outside_key || ' ' || topic || ' ' || attempts || CASE WHEN dead_at IS NULL THEN ' tried' ELSE ' dead' END ||
		CASE WHEN seconds BETWEEN 60 AND 360000 THEN ' old' ELSE ' new' END || ' ' || last_error FROM skald_calls ORDER BY outside_key`
)

// Viewed stores steps of each kind, and external calls. It returns the expected lines of the views.
func Viewed[TTx any](t *testing.T, d store.Driver[TTx]) (steps, calls []string) {
	t.Helper()
	apply := func(es ...store.Effect) {
		t.Helper()
		stored, err := d.Apply(t.Context(), es...)
		for i, ok := range stored {
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
			apply(store.Effect{Park: &store.Park{Parked: p}})
			return p
		}
		apply(store.Effect{Park: &store.Park{Parked: p, Step: &step}})
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
	apply(store.Effect{Finish: &store.Finish{Consumer: consumer, Identity: dropped.Identity}})
	wait("h", &store.Call{Key: "key-1", Request: "{}", Since: time.Now().Add(-time.Hour)}, nil)
	wait("i", &store.Call{Key: "key-2", Request: "{}", Since: time.Now().Add(time.Minute)}, dead)
	return []string{"a done charge - taken dated", "b undone charge - taken undone",
			"c barred charge - undone", "d rejected charge - taken", "e parked charge - taken",
			"f dead charge - taken", "g dropped charge - taken", "h calling charge key-1 taken",
			"i calling charge key-2 taken"},
		[]string{"key-1 orders 1 tried old no answer", "key-2 orders 1 dead new no answer"}
}

// Keyed stores a mark of each kind, and returns the expected lines of the view.
func Keyed[TTx any](t *testing.T, d store.Driver[TTx]) (lines []string) {
	t.Helper()
	as := func(m store.Mark, status string) {
		lines = append(lines, fmt.Sprintf("%s %s %s %s dated", m.Consumer, m.Source, m.ID, status))
	}
	commit := func(m store.Mark, es ...store.Effect) {
		t.Helper()
		u, err := d.Begin(t.Context(), intake(m))
		if err == nil {
			err = u.Commit(t.Context(), es...)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	apply := func(m store.Mark) {
		t.Helper()
		if stored, err := d.Apply(t.Context(), store.Effect{Mark: &m}); err != nil || !stored[0] {
			t.Fatalf("%v, %v", stored, err)
		}
	}
	done := mark()
	done.Fingerprint, done.Code, done.Result, done.Emitted = -7, 201, `{"größe":1}`, "[]"
	commit(done, store.Effect{Answer: &done})
	as(done, `done 201 {"größe":1} - -7`)
	silent := mark()
	commit(silent)
	as(silent, "done - - - -")
	key := mark() // of an application's own job: without a source
	key.Source, key.ID, key.Code, key.Result = "", "order-7/größe", 1, "paid"
	commit(key, store.Effect{Answer: &key})
	as(key, "done 1 paid - -")
	no := rejected(mark(), "out of stock")
	no.Fingerprint, no.Code, no.Result = 1<<62, 409, `{"left":0}`
	apply(no)
	as(no, `rejected 409 {"left":0} out of stock 4611686018427387904`)
	plain := rejected(mark(), "no")
	apply(plain)
	as(plain, "rejected - - no -")
	late := mark() // stored as Done, and answered by a rejection
	answer := rejected(late, "too late")
	answer.Code, answer.Result = 410, "gone"
	commit(late, store.Effect{Answer: &answer})
	as(late, "rejected 410 gone too late -")
	barred := mark()
	verdict := barred
	verdict.Outcome = store.Barred
	commit(barred, store.Effect{Answer: &verdict})
	as(barred, "barred 0 - - -") // its answer is that nothing was done
	return lines
}
