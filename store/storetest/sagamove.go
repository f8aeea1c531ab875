package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/store"
)

// sagaMove checks that a move writes all its fields and raises the version. Without Release the lease
// stays.
func (s *suite[TTx]) sagaMove() {
	was := s.start(sagaOf("a"))[0]
	m := store.SagaUpdate{SagaRef: refOf(was), State: "1", Hash: "v2",
		SagaStatus: store.SagaStatus{Status: "compensating", Stuck: true, Paused: true, Step: "charge",
			Error: strings.Repeat("é", 700), Failed: 2, Since: time.UnixMilli(1_700_000_000_123).UTC(),
			Retry: time.UnixMilli(1_700_000_000_456).UTC()}}
	s.apply(store.Effect{Saga: &m})
	got := s.saga("a")
	want := was
	want.Hash, want.State, want.SagaStatus = "v2", "1", m.SagaStatus
	want.Version, want.Changed = 2, got.Changed
	want.Error = strings.Repeat("é", 512)
	if got != want || got.Changed.Before(got.Started) {
		s.Fatalf("moved:\n%+v, want\n%+v", got, want)
	}
	for _, end := range []struct {
		wake  time.Duration
		final bool
		due   time.Duration // -1 means never
	}{{0, false, 0}, {time.Hour, false, time.Hour}, {-1, false, -1}, {time.Hour, true, -1}, {0, false, 0}} {
		m := nextMove(s.saga("a"), "2")
		m.Release, m.Wake, m.Final = !end.final, end.wake, end.final
		s.apply(store.Effect{Saga: m})
		got := s.saga("a")
		if got.Session != "" || got.Due.IsZero() != (end.due < 0) || got.Ended.IsZero() == end.final ||
			got.Hash != "v2" || !got.Since.IsZero() || !got.Retry.IsZero() {
			s.Fatalf("%+v: %+v", end, got)
		}
		if late := time.Until(got.Due) - end.due; end.due >= 0 && (late > patience || late < -patience) {
			s.Errorf("%+v: due in %v", end, time.Until(got.Due))
		}
	}
}

// sagaMoveLost checks that an effect whose saga changed meanwhile stores nothing, and that the other
// effects are stored.
func (s *suite[TTx]) sagaMoveLost() {
	a := s.start(sagaOf("a"))[0]
	stale := store.Effect{Saga: nextMove(a, "stale"), Rows: rows(message("a", 1)).Rows,
		Audit: &store.Audit{Author: "x", Reason: "y", Action: "z"}}
	s.apply(store.Effect{Saga: nextMove(a, "1")})
	s.applied([]bool{false}, stale)
	u := s.begin(s.d, store.Intake{})
	s.put(u.Tx(), "k", "v")
	s.wantError(u.Commit(s.Context(), stale), store.ErrLost, "commit with a stale move")
	s.wantUser("k", "")
	none := nextMove(store.Saga{Name: "order", Key: "none", Version: 1}, "1")
	s.applied([]bool{false, true, false}, stale, rows(message("a", 2)), store.Effect{Saga: none})
	s.wantSaga("a", "1", 2)
	s.wantCounts(1, 0, 0)
	u = s.begin(s.d, store.Intake{})
	stored, err := u.Rollback(s.Context(), stale, store.Effect{Saga: nextMove(s.saga("a"), "2")})
	s.ok(err, "roll back and move")
	if !slices.Equal(stored, []bool{false, true}) {
		s.Errorf("the effects of the rollback: stored %v", stored)
	}
	s.wantSaga("a", "2", 3)
}

// sagaMoveMany checks that each of many moves of sagas has its own result.
func (s *suite[TTx]) sagaMoveMany() {
	var sagas []store.Saga
	for i := range 40 {
		sagas = append(sagas, sagaOf(fmt.Sprint("k", i)))
	}
	sagas = s.start(sagas...)
	var es []store.Effect
	var want []bool
	for i, one := range slices.Backward(sagas) {
		m := nextMove(one, "1")
		if i%3 == 0 {
			m.Version++
		}
		if i%2 == 0 {
			m.Release, m.Wake, m.Retry, m.Failed = true, time.Hour, time.UnixMilli(1_700_000_000_456).UTC(), i
		}
		es, want = append(es, store.Effect{Saga: m}), append(want, i%3 != 0)
	}
	s.applied(want, es...)
	for i, one := range sagas {
		state, version := "1", int64(2)
		if i%3 == 0 {
			state, version = one.State, 1
		}
		s.wantSaga(one.Key, state, version)
		if got := s.saga(one.Key); i%3 != 0 && (got.Session == "") != (i%2 == 0) {
			s.Errorf("%s: %+v", one.Key, got)
		}
	}
	last := s.saga("k1")
	twice := *nextMove(last, "3")
	twice.Version++
	s.apply(store.Effect{Saga: nextMove(last, "2")}, store.Effect{Saga: &twice}) // one saga twice in a call
	s.wantSaga("k1", "3", last.Version+2)
}

// sagaMoveAndSay checks that the rows of many moves are written only for the moves that are stored.
func (s *suite[TTx]) sagaMoveAndSay() {
	var ids []string
	for lost := range 2 {
		var sagas []store.Saga
		for i := range 6 {
			sagas = append(sagas, sagaOf(fmt.Sprint(lost, i)))
		}
		var es []store.Effect
		want := make([]bool, len(sagas))
		for i, one := range s.start(sagas...) {
			e := store.Effect{Saga: nextMove(one, "1")}
			if want[i] = lost == 0 || i%2 == 0; !want[i] {
				e.Saga.Version++
			}
			if i != 1 {
				m := message("a", i)
				if e.Rows = rows(m).Rows; want[i] {
					ids = append(ids, m.ID)
				}
			}
			es = append(es, e)
		}
		s.applied(want, es...)
		s.wantIDs(s.allRows(), ids...)
	}
}

// sagaWrite checks that a move in a transaction of the caller, and in a lent transaction, is visible in that
// transaction.
func (s *suite[TTx]) sagaWrite() {
	s.start(sagaOf("a"))
	tx := s.db.Begin(s)
	s.ok(s.d.Write(s.Context(), tx, store.Effect{Saga: nextMove(s.sagaIn(tx, "a"), "gone")}), "write")
	s.ok(s.db.Rollback(tx), "roll back")
	s.wantSaga("a", `{"at":0}`, 1)
	tx = s.db.Begin(s)
	s.ok(s.d.Write(s.Context(), tx, store.Effect{Saga: nextMove(s.sagaIn(tx, "a"), "1"),
		Rows: rows(message("a", 1)).Rows}), "write")
	if got := s.sagaIn(tx, "a"); got.State != "1" || got.Version != 2 {
		s.Errorf("in the transaction that moved it: %+v", got)
	}
	s.sagaIn(tx, "none")
	s.ok(s.db.Commit(tx), "commit")
	u := s.begin(s.d, store.Intake{})
	for _, state := range []string{"2", "3"} {
		s.ok(s.d.Write(s.Context(), u.Tx(), store.Effect{Saga: nextMove(s.sagaIn(u.Tx(), "a"), state)}),
			"write in a unit")
	}
	s.commit(u, store.Effect{Saga: nextMove(store.Saga{Name: "order", Key: "a", Version: 4}, "4")})
	s.wantSaga("a", "4", 5)
	u = s.begin(s.d, store.Intake{})
	err := s.d.Write(s.Context(), u.Tx(),
		store.Effect{Saga: nextMove(store.Saga{Name: "order", Key: "a", Version: 4}, "stale")})
	if err == nil {
		err = u.Commit(s.Context())
	} else {
		s.rollback(u)
	}
	s.wantError(err, store.ErrLost, "a stale move in a unit")
	s.wantSaga("a", "4", 5)
	s.wantCounts(1, 0, 0)
}

func (s *suite[TTx]) sagaLimits() {
	long, large := strings.Repeat("n", 255), strings.Repeat("x", 900<<10)
	most := sagaOf(strings.Repeat("é", 127))
	most.Name, most.Input, most.State = long, large, large
	got := s.start(most)[0]
	if got.Input != large || got.State != large {
		s.Errorf("an input of %d bytes is stored as %d, a state as %d", len(large), len(got.Input),
			len(got.State))
	}
	large = strings.Repeat("y", 900<<10)
	s.apply(store.Effect{Saga: nextMove(got, large)})
	list, err := store.ListSagas(s.Context(), s.d, store.SagaQuery{Name: long})
	s.ok(err, "list")
	if len(list) != 1 || list[0].State != large || list[0].Input != most.Input {
		s.Error("a large state is not stored")
	}
	light, err := store.ListSagas(s.Context(), s.d, store.SagaQuery{Light: true})
	s.ok(err, "list")
	if len(light) != 1 || light[0].State != "" || light[0].Input != "" || light[0].Key != most.Key {
		s.Errorf("a light list: %+v", light)
	}
	for what, change := range map[string]func(*store.Saga){
		"a long key":         func(m *store.Saga) { m.Key += "xx" },
		"a long name":        func(m *store.Saga) { m.Name += "x" },
		"no key":             func(m *store.Saga) { m.Key = "" },
		"no name":            func(m *store.Saga) { m.Name = "" },
		"no hash":            func(m *store.Saga) { m.Hash = "" },
		"no status":          func(m *store.Saga) { m.Status = "" },
		"a key of bytes":     func(m *store.Saga) { m.Key = "\xff" },
		"a NUL":              func(m *store.Saga) { m.Input = "a\x00b" },
		"a state of bytes":   func(m *store.Saga) { m.State = "\xc3" },
		"a large input":      func(m *store.Saga) { m.Input += "x" },
		"a large state":      func(m *store.Saga) { m.State += "xx" },
		"a large origin":     func(m *store.Saga) { m.Origin = most.Input },
		"a session of bytes": func(m *store.Saga) { m.Session = "\xff" },
	} {
		bad := most
		change(&bad)
		tx := s.db.Begin(s)
		if _, _, err := s.d.StartSagas(s.Context(), tx, bad); err == nil || errors.Is(err, store.ErrLost) ||
			s.d.Outage(err) {
			s.Errorf("a saga with %s: %v", what, err)
		}
		s.ok(s.db.Rollback(tx), "roll back")
	}
	bad := nextMove(got, "\xff")
	if _, err := s.d.Apply(s.Context(), store.Effect{Saga: bad}); err == nil || s.d.Outage(err) {
		s.Errorf("a state of bytes: %v", err)
	}
	if _, err := s.d.Apply(s.Context(), store.Effect{Saga: bad},
		store.Effect{Saga: nextMove(sagaOf("z"), "1")}); err == nil || s.d.Outage(err) {
		s.Errorf("a state of bytes, with another effect: %v", err)
	}
}
