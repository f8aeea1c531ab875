package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skald-go/skald/store"
)

func sagaTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Start":       (*suite[TTx]).sagaStart,
		"StartAgain":  (*suite[TTx]).sagaStartAgain,
		"StartMany":   (*suite[TTx]).sagaStartMany,
		"LockMany":    (*suite[TTx]).sagaLockMany,
		"StartRival":  (*suite[TTx]).sagaStartRival,
		"Instead":     (*suite[TTx]).sagaStartInstead,
		"Move":        (*suite[TTx]).sagaMove,
		"MoveLost":    (*suite[TTx]).sagaMoveLost,
		"MoveMany":    (*suite[TTx]).sagaMoveMany,
		"MoveAndSay":  (*suite[TTx]).sagaMoveAndSay,
		"Write":       (*suite[TTx]).sagaWrite,
		"Intake":      (*suite[TTx]).sagaIntake,
		"IntakeRival": (*suite[TTx]).sagaIntakeRival,
		"Follows":     (*suite[TTx]).sagaFollows,
		"Limits":      (*suite[TTx]).sagaLimits,
		"Wakes":       (*suite[TTx]).sagaWakes,
		"Definitions": (*suite[TTx]).sagaDefinitions,
		"Tracked":     (*suite[TTx]).tracked,
	}
}

// sagaOf returns a new saga of definition order, leased to session one.
func sagaOf(key string) store.Saga {
	return store.Saga{Name: "order", Key: key, ID: newID(), Hash: "v1", Input: `{"n":1}`, Fingerprint: -7,
		Origin: `{"trace":"t"}`, State: `{"at":0}`,
		SagaStatus: store.SagaStatus{Status: "running", Step: "hold"}, Session: "one", Lease: time.Hour}
}

func (s *suite[TTx]) start(sagas ...store.Saga) (out []store.Saga) {
	s.Helper()
	tx := s.db.Begin(s)
	for _, one := range sagas {
		stored, fresh := s.startIn(tx, one)
		if !fresh {
			s.Fatalf("saga %s %s was there: %+v", one.Name, one.Key, stored)
		}
		out = append(out, stored)
	}
	s.ok(s.db.Commit(tx), "commit the start")
	return out
}

// startIn starts a saga in tx.
func (s *suite[TTx]) startIn(tx TTx, one store.Saga) (stored store.Saga, fresh bool) {
	s.Helper()
	all, are, err := s.d.StartSagas(s.Context(), tx, one)
	s.ok(err, "start %s", one.Key)
	if len(all) != 1 || len(are) != 1 {
		s.Fatalf("a start answers %+v, %v", all, are)
	}
	return all[0], are[0]
}

func refOf(m store.Saga) store.SagaRef {
	return store.SagaRef{Name: m.Name, Key: m.Key, Version: m.Version}
}

// nextMove returns the update that moves m by one step.
func nextMove(m store.Saga, state string) *store.SagaUpdate {
	return &store.SagaUpdate{SagaRef: refOf(m), State: state,
		SagaStatus: store.SagaStatus{Status: "running", Step: "next"}}
}

// saga returns the stored saga.
func (s *suite[TTx]) saga(key string) store.Saga {
	s.Helper()
	list, err := store.ListSagas(s.Context(), s.d, store.SagaQuery{Name: "order", Key: key})
	s.ok(err, "list saga %s", key)
	if len(list) == 0 {
		return store.Saga{}
	}
	return s.readSaga(list[0])
}

// readSaga checks that the read time of a saga is not before its last write. It returns the saga without the
// read time.
func (s *suite[TTx]) readSaga(one store.Saga) store.Saga {
	s.Helper()
	if one.Name != "" && (one.Read.Before(one.Changed) || one.Read.Before(one.Started)) {
		s.Errorf("the saga %s, changed at %v, was read at %v", one.Key, one.Changed, one.Read)
	}
	one.Read = time.Time{}
	return one
}

// wantSaga fails the test unless a saga is stored with that state and version.
func (s *suite[TTx]) wantSaga(key, state string, version int64) {
	s.Helper()
	if got := s.saga(key); got.State != state || got.Version != version {
		s.Fatalf("saga %s is %q at %d, want %q at %d", key, got.State, got.Version, state, version)
	}
}

// sagaIn locks and reads a saga in tx.
func (s *suite[TTx]) sagaIn(tx TTx, key string) store.Saga {
	s.Helper()
	got, err := s.d.LockSagas(s.Context(), tx, store.SagaRef{Name: "order", Key: key})
	s.ok(err, "lock saga %s", key)
	if len(got) != 1 || got[0].Name != "" && got[0].Key != key {
		s.Fatalf("locked as %s: %+v", key, got)
	}
	return s.readSaga(got[0])
}

// sagaIntake checks that an intake locks the sagas with the given versions, and that their moves are stored
// with the commit.
func (s *suite[TTx]) sagaIntake() {
	a, b := s.start(sagaOf("a"))[0], s.start(sagaOf("b"))[0]
	s.apply(store.Effect{Saga: nextMove(b, "1")})
	for i := range 2 {
		u := s.begin(s.d, store.Intake{Sagas: []store.SagaRef{refOf(b), refOf(a),
			{Name: "order", Key: "none", Version: 1}}, Wait: patience})
		if got := u.Found().Sagas; !slices.Equal(got, []bool{false, i == 0, false}) {
			s.Fatalf("the intake found %v", got)
		}
		s.put(u.Tx(), "k", fmt.Sprint(i))
		if i == 0 {
			s.commit(u, store.Effect{Saga: nextMove(a, "1"), Rows: rows(message("a", 1)).Rows})
			continue
		}
		s.wantError(u.Commit(s.Context(), store.Effect{Saga: nextMove(a, "2")}), store.ErrLost,
			"commit a stale move")
	}
	s.wantUser("k", "0")
	s.wantCounts(1, 0, 0)
	s.wantSaga("a", "1", 2)
	// If the handler moves the saga itself, the guard of the move in the commit is lost.
	a = s.saga("a")
	u := s.begin(s.d, store.Intake{Sagas: []store.SagaRef{refOf(a)}})
	s.ok(s.d.Write(s.Context(), u.Tx(), store.Effect{Saga: nextMove(a, "the handler's")}), "write")
	s.wantError(u.Commit(s.Context(), store.Effect{Saga: nextMove(a, "2")}), store.ErrLost,
		"commit after a move of the handler's")
	s.wantSaga("a", "1", 2)
	tx := s.db.Begin(s)
	found, err := s.d.Enter(s.Context(), tx, store.Intake{Sagas: []store.SagaRef{refOf(a), refOf(b)}})
	s.ok(err, "enter")
	if !slices.Equal(found.Sagas, []bool{true, false}) {
		s.Errorf("enter found %v", found.Sagas)
	}
	s.ok(s.db.Rollback(tx), "roll back")
}

// sagaIntakeRival checks that others wait for a saga that a unit has locked, and then find it changed. A
// claim skips it. A move with a short Wait returns ErrBusy and stores nothing.
func (s *suite[TTx]) sagaIntakeRival() {
	one := sagaOf("a")
	one.Lease = 0
	a := s.start(one)[0]
	holder := s.begin(s.db.Driver(s), store.Intake{Sagas: []store.SagaRef{refOf(a)}})
	if s.can.Rivals {
		got, err := s.d.Claim(s.Context(), store.ClaimRequest{Session: "two", Lease: time.Hour,
			Sagas: &store.SagaClaimRequest{Hashes: []string{"v1"}, Limit: 9}})
		s.ok(err, "claim")
		if len(got.Sagas) != 0 || got.Next <= 0 || got.Next > time.Minute {
			s.Errorf("a claim while a unit has the saga locked: %+v", got)
		}
		_, err = s.d.Begin(s.Context(), store.Intake{Sagas: []store.SagaRef{refOf(a)}, Wait: shortly})
		s.wantError(err, store.ErrBusy, "begin behind a rival")
	}
	brief := nextMove(a, "brief")
	brief.Wait = shortly
	_, err := s.d.Apply(s.Context(), store.Effect{Saga: brief})
	s.wantError(err, store.ErrBusy, "apply behind a rival")
	if !s.d.Outage(err) {
		s.Errorf("%v is somebody's fault", err)
	}
	var u store.Unit[TTx]
	came := meanwhile(func() {
		u, err = s.d.Begin(s.Context(), store.Intake{Sagas: []store.SagaRef{refOf(a)}, Wait: patience})
	})
	s.wantBlocked(came, "a rival for the saga")
	s.commit(holder, store.Effect{Saga: nextMove(a, "1")})
	s.comes(came, "the saga")
	s.ok(err, "the rival's begin")
	if u.Found().Sagas[0] {
		s.Error("the saga moved, and the intake found it as it was")
	}
	s.rollback(u)
}

// sagaFollows checks that a unit can begin in the round trip of the commit of another unit.
func (s *suite[TTx]) sagaFollows() {
	a, b := s.start(sagaOf("a"))[0], s.start(sagaOf("b"))[0]
	s.commit(s.begin(s.d, store.Intake{Sagas: []store.SagaRef{refOf(b)}}))
	u := s.begin(s.d, store.Intake{Sagas: []store.SagaRef{refOf(a)}})
	for i := range 3 {
		s.put(u.Tx(), "k", fmt.Sprint(i))
		next := refOf(b)
		next.Version += int64(i / 2)
		then, err := u.CommitThen(s.Context(), store.Intake{Sagas: []store.SagaRef{next}},
			store.Effect{Saga: nextMove(s.saga([]string{"a", "b", "b"}[i]), fmt.Sprint(i))})
		s.ok(err, "commit and begin")
		if u = then; u == nil {
			next := s.saga("b")
			u = s.begin(s.d, store.Intake{Sagas: []store.SagaRef{refOf(next)}})
			continue
		}
		if got := u.Found().Sagas[0]; got != (next.Version == s.saga("b").Version) {
			s.Fatalf("turn %d: the next found %v of %+v", i, got, next)
		}
	}
	s.rollback(u)
	s.wantUser("k", "2")
	s.wantSaga("a", "0", 2)
	s.wantSaga("b", "2", 3)
}

// sagaWakes checks that a write that makes a saga claimable wakes engines, for each way of writing.
func (s *suite[TTx]) sagaWakes() {
	if s.d.Woken() == nil {
		s.Skip("the store does not report writes")
	}
	wakes := func(what string, f func()) {
		s.Helper()
		woken := s.d.Woken()
		f()
		s.comes(woken, "the wake of "+what)
	}
	anybodys := sagaOf("a")
	anybodys.Session, anybodys.Lease = "", 0
	wakes("a start", func() { s.start(anybodys, sagaOf("b")) })
	free := func(saga store.Saga, state string) *store.SagaUpdate {
		m := nextMove(saga, state)
		m.Release = true
		return m
	}
	wakes("an effect", func() { s.apply(store.Effect{Saga: free(s.saga("a"), "1")}) })
	wakes("effects", func() {
		s.apply(store.Effect{Saga: free(s.saga("a"), "2")}, store.Effect{Saga: free(s.saga("b"), "1")})
	})
	wakes("a unit", func() {
		s.commit(s.begin(s.d, store.Intake{}),
			store.Effect{Saga: free(store.Saga{Name: "order", Key: "a", Version: 3}, "3")})
	})
	wakes("a write", func() {
		tx := s.db.Begin(s)
		s.ok(s.d.Write(s.Context(), tx, store.Effect{Saga: free(s.sagaIn(tx, "a"), "4")}), "write")
		s.ok(s.db.Commit(tx), "commit")
	})
}

func (s *suite[TTx]) sagaDefinitions() {
	note := func(ds ...store.SagaDefinition) { s.apply(store.Effect{Definitions: ds}) }
	note()
	v1, v2, other := store.SagaDefinition{Name: "order", Hash: "v1", Written: "{}"},
		store.SagaDefinition{Name: "order", Hash: "v2", Written: `{"n":2}`},
		store.SagaDefinition{Name: "invoice", Hash: "v1", Written: "{}"}
	note(v1, other, v1)
	read := func() []store.SagaDefinition {
		l, err := s.d.List(s.Context(), store.List{Definitions: true})
		s.ok(err, "list definitions")
		return l.Definitions
	}
	note(v2)
	at := read()[2].Noted
	s.waitUntil("the clock moves", func() bool {
		note(v1) // it stays the first
		return read()[2].Noted.After(at)
	})
	got := read()
	other.Number, v1.Number, v2.Number = 1, 1, 2
	for i := range got {
		if since := time.Since(got[i].Noted).Abs(); since > patience {
			s.Errorf("noted %v ago", since)
		}
		got[i].Noted = time.Time{}
	}
	if want := []store.SagaDefinition{other, v2, v1}; !slices.Equal(got, want) {
		s.Errorf("the definitions are %+v, want %+v", got, want)
	}
	var wg sync.WaitGroup
	var errs [4]error
	for i := range errs {
		wg.Go(func() {
			errs[i] = s.tryApply(store.Effect{Definitions: []store.SagaDefinition{{Name: "order",
				Hash: fmt.Sprint("rival-", i), Written: "{}"}, v1}})
		})
	}
	wg.Wait()
	s.ok(errors.Join(errs[:]...), "note definitions at once")
	for _, d := range read() {
		rival := strings.HasPrefix(d.Hash, "rival-")
		if rival && (d.Number < 3 || d.Number > 6) || d.Hash == "v1" && d.Number != 1 {
			s.Errorf("%s has the number %d", d.Hash, d.Number)
		}
	}
	for _, bad := range []store.SagaDefinition{{Hash: "v1"}, {Name: "order"}, {Name: "\xff", Hash: "v1"}} {
		if err := s.tryApply(store.Effect{Definitions: []store.SagaDefinition{v1, bad}}); err == nil {
			s.Errorf("the definition %+v is taken", bad)
		}
	}
}
