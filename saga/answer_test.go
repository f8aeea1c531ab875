package saga_test

import (
	"errors"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/memstore"
)

// within calls f in a transaction, and commits it.
func within[T any](t *testing.T, db *memstore.Store, f func(tx tx) (T, error)) T {
	t.Helper()
	tx := db.BeginTx()
	v, err := f(tx)
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// settle steps the engine until it is idle.
func settle(t *testing.T, e *saga.Engine[tx]) {
	t.Helper()
	for {
		busy, err := e.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !busy {
			return
		}
	}
}

// TestAnswer: Answer takes the reply of a participant that does not know sagas, by the business key. It
// counts once, for the only command that waits for it.
func TestAnswer(t *testing.T) {
	db, d := memstore.New(nil), packing()
	e := engineOf(t, db, d)
	says := func(key, typ string) bool {
		m := skald.Message{ID: "m", Source: "/old", Topic: "packed", Type: typ, Key: []byte(key),
			CorrelationID: "theirs", CausationID: "theirs",
			Time: time.Now(), ContentType: "application/json", Data: []byte(`"as they say"`)}
		return within(t, db, func(tx tx) (bool, error) {
			return saga.Bind(e, d).Answer(t.Context(), tx, key, m)
		})
	}
	begin(t, db, e, d, order{"one", []string{"tea"}, 1})
	begin(t, db, e, d, order{"two", []string{"tea", "cup"}, 1})
	begin(t, db, e, d, order{"no", []string{"tea"}, 1})
	if says("one", "packed") {
		t.Error("it answered a command that was not given yet")
	}
	settle(t, e)
	for _, c := range []struct {
		key, typ string
		counts   bool
	}{
		{"one", "unpacked", false}, {"one", "packed", true}, {"one", "packed", false},
		{"one", "short", false},
		{"two", "packed", false}, // ambiguous: two lines wait
		{"no", "short", true},
		{"none", "packed", false},
	} {
		if got := says(c.key, c.typ); got != c.counts {
			t.Errorf("%s for %s counts: %t", c.typ, c.key, got)
		}
	}
	settle(t, e)
	if end := await(t, e, d, "one"); !end.Done {
		t.Errorf("%+v", end)
	}
	if end := await(t, e, d, "no"); end.Done || end.Reason != "as they say" {
		t.Errorf("%+v", end)
	}
	if h := e.Health(); h.Replies["taken"] != 2 || h.Replies["orphan"] == 0 {
		t.Errorf("%v", h.Replies)
	}
}

// TestCancel: a cancellation commits with the caller's transaction, and returns its result.
func TestCancel(t *testing.T) {
	go1 := saga.Signal[bool]{Name: "go"}
	d := saga.New("trip", &saga.Options[trip]{Key: tripKey}, ledger("flight"), saga.Wait[trip]("go", go1),
		ledger("hotel"))
	db := memstore.New(nil)
	e := engineOf(t, db, d)
	cancel := func(key string) saga.SignalResult {
		t.Helper()
		return within(t, db,
			func(tx tx) (saga.SignalResult, error) { return saga.Bind(e, d).Cancel(t.Context(), tx, key, "no more") })
	}
	begin(t, db, e, d, trip{ID: "early"})
	if got := cancel("early"); got != saga.NothingToUndo {
		t.Errorf("before the first step: %s", got)
	}
	begin(t, db, e, d, trip{ID: "a"})
	begin(t, db, e, d, trip{ID: "b"})
	settle(t, e)
	undone := db.BeginTx()
	got, err := saga.Bind(e, d).Cancel(t.Context(), undone, "a", "no more")
	if got != saga.Taken || err != nil {
		t.Errorf("%s %v", got, err)
	}
	undone.Rollback()
	for i, want := range []saga.SignalResult{saga.Taken, saga.Duplicate} {
		if got := cancel("a"); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	if _, err := go1.Send(t.Context(), saga.Bind(e, d), "b", true); err != nil {
		t.Fatal(err)
	}
	settle(t, e)
	if got := cancel("b"); got != saga.TooLate {
		t.Errorf("after its end: %s", got)
	}
	for key, rows := range map[string]int{"early": 0, "a": 0, "b": 2} {
		end := await(t, e, d, key)
		if end.Done != (rows > 0) || left(db, key) != rows || !end.Done &&
			(end.Why != "cancel" || end.Reason != "no more") {
			t.Errorf("%s: %+v, %d rows", key, end, left(db, key))
		}
	}
	none := (*saga.NoSagaError)(nil)
	if _, err := saga.Bind(e, d).Cancel(t.Context(), db.BeginTx(), "none", ""); !errors.As(err, &none) {
		t.Error(err)
	}
}
