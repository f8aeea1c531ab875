package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
)

func sagaClaimTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Order":  (*suite[TTx]).sagaClaimOrder,
		"Fences": (*suite[TTx]).sagaClaimFences,
		"Next":   (*suite[TTx]).sagaClaimNext,
		"Hashes": (*suite[TTx]).sagaClaimHashes,
		"AtOnce": (*suite[TTx]).sagaClaimAtOnce,
		"Bytes":  (*suite[TTx]).sagaClaimBytes,
		"List":   (*suite[TTx]).sagaList,
		"Counts": (*suite[TTx]).sagaCounts,
		"Forget": (*suite[TTx]).sagaForget,
	}
}

// dueSaga returns a saga without a lease that has been due for so long.
func dueSaga(key string, since time.Duration) store.Saga {
	one := sagaOf(key)
	one.Session, one.Lease = "", -since
	return one
}

func (s *suite[TTx]) claimSagas(session string, limit int, hashes ...string) store.Claimed {
	s.Helper()
	if hashes == nil {
		hashes = []string{"v1"}
	}
	got, err := s.d.Claim(s.Context(), store.ClaimRequest{Session: session, Lease: time.Hour,
		Sagas: &store.SagaClaimRequest{Hashes: hashes, Limit: limit}})
	s.ok(err, "claim sagas")
	return got
}

func keysOf(sagas []store.Saga) string {
	var keys []string
	for _, one := range sagas {
		keys = append(keys, one.Key)
	}
	return strings.Join(keys, " ")
}

// sagaClaimOrder checks that the sagas that were due first are claimed first, whatever their definition, and
// that a claim leases them.
func (s *suite[TTx]) sagaClaimOrder() {
	var all []store.Saga
	for i, key := range []string{"d", "b", "e", "a", "c"} {
		one := dueSaga(key, time.Duration(strings.Index("abcde", key)-10)*-time.Minute)
		one.Hash = fmt.Sprint("v", 1+i%2)
		all = append(all, one)
	}
	s.start(all...)
	s.start(sagaOf("leased"))
	for _, want := range []string{"a b", "c d", "e", ""} {
		got := s.claimSagas("two", 2, "v2", "v1", "v1")
		if keys := keysOf(got.Sagas); keys != want {
			s.Fatalf("claimed %q, want %q", keys, want)
		}
		for _, one := range got.Sagas {
			if stored := s.saga(one.Key); stored != one || one.Version != 2 || one.Session != "two" ||
				time.Until(one.Due) < time.Hour-patience {
				s.Errorf("claimed\n%+v, stored\n%+v", one, stored)
			}
		}
	}
}

// sagaClaimFences checks that the previous session cannot write any more after a claim.
func (s *suite[TTx]) sagaClaimFences() {
	one := dueSaga("a", time.Second)
	one.Session = "one"
	was := s.start(one)[0]
	got := s.claimSagas("two", 9).Sagas
	if len(got) != 1 {
		s.Fatalf("a saga whose lease has ended: %+v", got)
	}
	if got[0].Lapsed != "one" {
		s.Errorf("its lease was of %q, want one", got[0].Lapsed)
	}
	s.applied([]bool{false}, store.Effect{Saga: nextMove(was, "late")})
	u := s.begin(s.d, store.Intake{Sagas: []store.SagaRef{refOf(was)}})
	if u.Found().Sagas[0] {
		s.Error("the former holder finds the saga as it was")
	}
	s.wantError(u.Commit(s.Context(), store.Effect{Saga: nextMove(was, "late")}), store.ErrLost,
		"commit of the former holder")
	m := nextMove(got[0], "1")
	m.Release = true
	s.apply(store.Effect{Saga: m})
	if got = s.claimSagas("three", 9).Sagas; len(got) != 1 || got[0].State != "1" || got[0].Version != 4 ||
		got[0].Lapsed != "" {
		s.Fatalf("a saga that was released: %+v", got)
	}
	m = nextMove(got[0], "2")
	m.Lease = 3 * time.Hour
	s.apply(store.Effect{Saga: m})
	if renewed := s.saga("a"); renewed.Session != "three" || time.Until(renewed.Due) < 2*time.Hour {
		s.Errorf("a lease that was renewed: %+v", renewed)
	}
	u = s.begin(s.d, store.Intake{})
	m = nextMove(s.saga("a"), "3")
	m.Lease = 5 * time.Hour
	s.wantError(u.Commit(s.Context(), store.Effect{Saga: m}), nil, "commit")
	if renewed := s.saga("a"); time.Until(renewed.Due) < 4*time.Hour {
		s.Errorf("a lease that a unit has renewed: %+v", renewed)
	}
}

// sagaClaimNext checks Next: the time until another saga is due, or 0 if the limit was reached.
func (s *suite[TTx]) sagaClaimNext() {
	if got := s.claimSagas("two", 9); len(got.Sagas) != 0 || got.Next >= 0 {
		s.Errorf("without sagas: %+v", got)
	}
	s.start(dueSaga("a", time.Second), dueSaga("b", time.Second))
	if got := s.claimSagas("two", 1); len(got.Sagas) != 1 || got.Next != 0 {
		s.Errorf("one of two: %+v", got)
	}
	got := s.claimSagas("two", 9)
	if len(got.Sagas) != 1 || got.Next >= 0 && got.Next < time.Hour-patience {
		s.Errorf("the last: %+v", got)
	}
	later := dueSaga("c", -20*time.Minute)
	never := nextMove(got.Sagas[0], "1")
	never.Release, never.Wake = true, -1
	s.start(later)
	s.apply(store.Effect{Saga: never})
	if got := s.claimSagas("two", 9); len(got.Sagas) != 0 || got.Next > 20*time.Minute ||
		got.Next < 20*time.Minute-patience {
		s.Errorf("one is due in 20 minutes: %+v", got)
	}
}

// sagaClaimHashes checks that a session neither claims nor waits for sagas of definitions that it cannot
// run.
func (s *suite[TTx]) sagaClaimHashes() {
	s.start(dueSaga("a", time.Second))
	for _, hashes := range [][]string{{"v2"}, {}, {"V1", "v10", "v"}} {
		got, err := s.d.Claim(s.Context(), store.ClaimRequest{Session: "two", Lease: time.Hour,
			Sagas: &store.SagaClaimRequest{Hashes: hashes, Limit: 9}})
		s.ok(err, "claim sagas")
		if len(got.Sagas) != 0 || got.Next >= 0 {
			s.Errorf("a claim for %v: %+v", hashes, got)
		}
	}
	s.wantSaga("a", `{"at":0}`, 1)
}

// sagaClaimAtOnce checks that each of many sagas is claimed once.
func (s *suite[TTx]) sagaClaimAtOnce() {
	const many = 60
	var all []store.Saga
	for i := range many {
		all = append(all, dueSaga(fmt.Sprint("k", i), time.Duration(i)*time.Second))
	}
	s.start(all...)
	var mu sync.Mutex
	var wg sync.WaitGroup
	claimed := map[string]int{}
	for i := range 4 {
		d := s.db.Driver(s)
		wg.Go(func() {
			for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
				got, err := d.Claim(s.Context(), store.ClaimRequest{Session: fmt.Sprint(i), Lease: time.Hour,
					Sagas: &store.SagaClaimRequest{Hashes: []string{"v1"}, Limit: 7}})
				if err != nil && !d.Outage(err) {
					s.Errorf("claim: %v", err)
					return
				}
				mu.Lock()
				for _, one := range got.Sagas {
					claimed[one.Key]++
				}
				over := len(claimed) == many
				mu.Unlock()
				if over {
					return
				}
			}
		})
	}
	wg.Wait()
	for key, n := range claimed {
		if n != 1 {
			s.Errorf("%s was claimed %d times", key, n)
		}
	}
	if len(claimed) != many {
		s.Errorf("%d of %d were claimed", len(claimed), many)
	}
}

// sagaClaimBytes checks that a claim reads about 8 MiB, but at least one saga.
func (s *suite[TTx]) sagaClaimBytes() {
	large := strings.Repeat("x", 900<<10)
	var all []store.Saga
	for i := range 7 {
		one := dueSaga(fmt.Sprint("k", i), time.Duration(10-i)*time.Minute)
		one.Input, one.State = large, large
		all = append(all, one)
	}
	s.start(all...)
	got := s.claimSagas("two", 100)
	if len(got.Sagas) != 4 || got.Next != 0 || got.Sagas[0].Input != large {
		s.Errorf("claimed %d, next in %v", len(got.Sagas), got.Next)
	}
	if got := s.claimSagas("two", 100); len(got.Sagas) != 3 || got.Next == 0 {
		s.Errorf("then claimed %d, next in %v", len(got.Sagas), got.Next)
	}
}

// lookThroughSagas checks a list without an index. The list examines Scan sagas, and the next list continues
// after them.
func (s *suite[TTx]) lookThroughSagas() {
	for what, c := range map[string]struct {
		q    store.SagaQuery
		want string
		to   string
	}{
		"some":             {store.SagaQuery{Scan: 3}, "a a b", "b"},
		"a full page":      {store.SagaQuery{Scan: 3, Limit: 3}, "a a b", ""},
		"more than are":    {store.SagaQuery{Scan: 7}, "a a b c d e", ""},
		"none of a step":   {store.SagaQuery{Scan: 4, Step: "nowhere"}, "", "c"},
		"one of a step":    {store.SagaQuery{Scan: 4, Step: "charge"}, "a", "c"},
		"one that is full": {store.SagaQuery{Scan: 4, Step: "charge", Limit: 1}, "a", ""},
		"of those failing": {store.SagaQuery{Scan: 1, Failing: true, ID: "none"}, "", "c"},
		"of those stuck":   {store.SagaQuery{Scan: 2, Stuck: true, Step: "charge"}, "a", ""},
		"of a live status": {store.SagaQuery{Scan: 1, Status: []string{"compensating"}, Error: "none"}, "",
			"c"},
		"of an ended one": {store.SagaQuery{Scan: 5, Status: []string{"done"}}, "d", "d"},
		"after one": {store.SagaQuery{Scan: 2, Step: "nowhere",
			After: &store.SagaRef{Name: "order", Key: "b"}}, "", "d"},
		"after the last": {store.SagaQuery{Scan: 2, Step: "nowhere",
			After: &store.SagaRef{Name: "order", Key: "e"}}, "", ""},
		"of a key":          {store.SagaQuery{Scan: 3, Key: "a"}, "a a", ""},
		"of a key, light":   {store.SagaQuery{Scan: 5, Key: "a", Light: true, Name: "order"}, "a", ""},
		"of a name, bigger": {store.SagaQuery{Scan: 5, Name: "order", Step: "nowhere"}, "", "e"},
	} {
		got, err := s.d.List(s.Context(), store.List{Sagas: &c.q})
		s.ok(err, "list %s", what)
		to := ""
		if got.SagasTo != nil {
			to = got.SagasTo.Key
		}
		if keys := keysOf(got.Sagas); keys != c.want || to != c.to {
			s.Errorf("%s: %q up to %q, want %q up to %q", what, keys, to, c.want, c.to)
		}
	}
}

func (s *suite[TTx]) sagaCounts() {
	counts := func() []store.SagaCounts {
		s.Helper()
		got, err := s.d.Status(s.Context(), store.StatusQuery{Sagas: true})
		s.ok(err, "count sagas")
		for i := range got.Sagas {
			if old := got.Sagas[i].Oldest; old < 0 || old > patience {
				s.Errorf("the oldest of %s is %v old", got.Sagas[i].Name, old)
			}
			got.Sagas[i].Oldest = 0
			got.Sagas[i].FailingFor = got.Sagas[i].FailingFor.Truncate(time.Hour)
		}
		return got.Sagas
	}
	if got := counts(); len(got) != 0 {
		s.Errorf("without sagas: %+v", got)
	}
	var all []store.Saga
	for i := range 16 {
		one := sagaOf(fmt.Sprint("k", i))
		if one.Stuck, one.Paused = i&1 > 0, i&2 > 0; i&4 > 0 {
			one.Retry, one.Failed = time.Now(), i/8
			one.Since = time.Now().Add(-time.Duration(i)*time.Hour - time.Minute)
		}
		if i&8 > 0 {
			one.Status = "compensating"
		}
		all = append(all, one)
	}
	late := dueSaga("late", 2*time.Minute)
	late.Name = "invoice"
	s.start(append(all, late, dueSaga("due", time.Second))...)
	for key, since := range map[string]time.Duration{"a": time.Minute, "b": 16 * time.Minute,
		"in hand": time.Hour} { // a saga left to other builds is tried again and again
		one := dueSaga(key, -20*time.Second)
		one.Name, one.Status, one.Error = "move", "compensating", sagarow.LeftToOthers+"it is gone"
		one.Since, one.Retry = time.Now().Add(-since), time.Now()
		if key == "in hand" {
			one.Session = "two"
		}
		s.start(one)
	}
	want := []store.SagaCounts{{Name: "invoice", Running: 1, Overdue: 1},
		{Name: "move", Compensating: 3, Failing: 3, Overdue: 1},
		{Name: "order", Running: 9, Compensating: 8, Stuck: 8, Paused: 8, Failing: 8,
			FailingFor: 15 * time.Hour}}
	if got := counts(); !slices.Equal(got, want) {
		s.Errorf("the counts are\n%+v, want\n%+v", got, want)
	}
	end := nextMove(s.saga("k15"), "1")
	end.Status, end.Final = "compensated", true
	s.apply(store.Effect{Saga: end})
	want[2].Compensating, want[2].Stuck, want[2].Paused, want[2].Failing = 7, 7, 7, 7
	want[2].FailingFor = 14 * time.Hour
	if got := counts(); !slices.Equal(got, want) {
		s.Errorf("once one ended, the counts are\n%+v, want\n%+v", got, want)
	}
}

// sagaForget checks that an ended saga is never due, and is kept with its key until the end of the
// retention. Then the key is free.
func (s *suite[TTx]) sagaForget() {
	s.start(sagaOf("a"), dueSaga("b", time.Second))
	end := nextMove(s.saga("a"), "1")
	end.Status, end.Final, end.Release = "done", true, true
	s.apply(store.Effect{Saga: end})
	if got := s.claimSagas("two", 9); keysOf(got.Sagas) != "b" {
		s.Errorf("claimed %+v", got)
	}
	keep := store.Retention{Sagas: 3 * day}
	forget := func(age time.Duration, dry bool, want int64) {
		s.Helper()
		s.db.Age(s, age)
		did, err := s.d.Maintain(s.Context(), store.Maintain{Keep: keep, DryRun: dry})
		s.ok(err, "maintain")
		if did.Sagas != want {
			s.Errorf("%d sagas went, want %d", did.Sagas, want)
		}
	}
	forget(2*day, false, 0)
	tx := s.db.Begin(s)
	if _, fresh := s.startIn(tx, sagaOf("a")); fresh {
		s.Error("the start of a key that is kept is fresh")
	}
	s.ok(s.db.Rollback(tx), "roll back")
	forget(2*day, true, 1)
	s.wantSaga("a", "1", 2)
	forget(0, false, 1)
	s.wantSaga("b", `{"at":0}`, 2) // it is running, so its age does not matter
	s.start(sagaOf("a"))
	s.wantSaga("a", `{"at":0}`, 1)
	for _, parent := range []string{"b", "none"} { // a child stays until no parent may undo it
		kid := sagaOf("kid of " + parent)
		kid.Origin = fmt.Sprintf(
			`{"correlation":"\"parent\"","parent":{"name":"order","key":%q,"id":%q,"step":"x"}}`, parent,
			s.saga("b").ID)
		s.start(kid)
		end := nextMove(s.saga(kid.Key), "1")
		end.Status, end.Final, end.Release = "done", true, true
		s.apply(store.Effect{Saga: end})
	}
	forget(4*day, true, 1)
	forget(0, false, 1)
	s.wantSaga("kid of b", "1", 2)
	end = nextMove(s.saga("b"), "1")
	end.Status, end.Final, end.Release = "done", true, true
	s.apply(store.Effect{Saga: end})
	forget(0, true, 1)
	forget(0, false, 1)
	s.wantSaga("b", "1", 3)
	if _, err := s.d.Maintain(s.Context(), store.Maintain{Keep: store.Retention{Sagas: -1}}); err == nil {
		s.Error("a retention below zero is taken")
	}
}
