package storetest

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald/store"
)

func overseeTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"OneOwner": (*suite[TTx]).ownOne,
		"Over":     (*suite[TTx]).ownOver,
		"GiveBack": (*suite[TTx]).ownGivenBack,
		"Rivals":   (*suite[TTx]).ownRivals,
		"Keeps":    (*suite[TTx]).keepsLastRetention,
	}
}

func (s *suite[TTx]) owns(owner string, ttl time.Duration, want bool) {
	s.Helper()
	mine, err := takeLease(s.Context(), s.d, owner, ttl)
	s.ok(err, "take a lease")
	if mine != want {
		s.Errorf("%s has the lease: %v, want %v", owner, mine, want)
	}
}

// takeLease takes the retention lease, or releases it if ttl is 0. It reports whether owner has the lease.
func takeLease(ctx context.Context, d store.Maintainer, owner string,
	ttl time.Duration) (ok bool, err error) {
	did, err := d.Maintain(ctx, store.Maintain{Owner: owner, Lease: ttl, Leave: ttl == 0})
	return err == nil && ttl > 0 && !did.Other, err
}

func (s *suite[TTx]) ownOne() {
	s.owns("a", time.Hour, true)
	s.owns("b", time.Hour, false)
	s.owns("a", time.Hour, true)
	s.owns("b", time.Hour, false)
}

func (s *suite[TTx]) ownOver() {
	s.owns("a", time.Hour, true)
	s.owns("a", time.Millisecond, true) // a lease can be made shorter, and ends with its owner
	s.waitUntil("the lease is over", func() bool {
		mine, err := takeLease(s.Context(), s.d, "b", time.Hour)
		s.ok(err, "take a lease")
		return mine
	})
	s.owns("a", time.Hour, false)
}

func (s *suite[TTx]) ownGivenBack() {
	s.owns("a", 0, false) // there is no lease to release
	s.owns("a", time.Hour, true)
	s.owns("b", 0, false) // nor has b one
	s.owns("b", time.Hour, false)
	s.owns("a", 0, false)
	s.owns("b", time.Hour, true)
}

func (s *suite[TTx]) ownRivals() {
	var mine atomic.Int32
	var all sync.WaitGroup
	for _, owner := range []string{"a", "b", "c", "d", "e", "f"} {
		d := s.db.Driver(s)
		all.Go(func() {
			for {
				got, err := takeLease(s.Context(), d, owner, time.Hour)
				if err != nil && d.Outage(err) {
					continue
				}
				if err != nil {
					s.Error(err)
				}
				if got {
					mine.Add(1)
				}
				return
			}
		})
	}
	all.Wait()
	if n := mine.Load(); n != 1 {
		s.Errorf("%d have the lease", n)
	}
}

func (s *suite[TTx]) keepsLastRetention() {
	keeps := func(want store.Retention) {
		s.Helper()
		got, err := s.d.Status(s.Context(), store.StatusQuery{Retention: true})
		s.ok(err, "ask for the retention")
		if got.Retention != want {
			s.Errorf("the retention goes by %+v, want %+v", got.Retention, want)
		}
	}
	defaults := store.Retention{Outbox: 7 * day, Marks: 30 * day, Steps: 90 * day, Sagas: 30 * day}
	keeps(store.Retention{})
	for _, keep := range []store.Retention{{Outbox: 2 * day, Marks: 20 * day, Steps: 70 * day,
		Sagas: 3 * day}, defaults} {
		s.waitUntil("nothing is in the way of the retention", func() bool { // a file may be busy
			got, err := s.d.Maintain(s.Context(), store.Maintain{Keep: keep})
			s.ok(err, "maintain")
			return len(got.Left) == 0
		})
		keeps(keep)
	}
	_, err := s.d.Maintain(s.Context(), store.Maintain{Keep: store.Retention{Outbox: 3 * day, Marks: day}})
	if err == nil {
		s.Error("marks that go before rows are taken")
	}
	keeps(defaults) // a refused retention is not applied
}

// backlogKept checks that waiting messages are counted for each consumer, by state and reason. An admitted
// message waits for no operator.
func (s *suite[TTx]) backlogKept() {
	if b := s.backlog(); len(b.PerConsumer) > 0 {
		s.Errorf("nothing is kept, and the backlog has %+v", b.PerConsumer)
	}
	a, b := parked("k", 1), parked("k", 2)
	dead := parked("l", 3)
	dead.Dead = &store.Death{Kind: "permanent"}
	b.Call = &store.Call{Key: "k", Request: "{}", Since: time.Now().Add(-2 * time.Hour)}
	dead.Call = &store.Call{Key: "l", Request: "{}", Since: time.Now().Add(-time.Hour), Outcome: "yes"}
	s.apply(keeping(a, b, dead)...)
	for i, why := range []store.Outcome{store.Conflict, store.TooOld, store.TooOld, store.Conflict} {
		q := quarantined(message("q", i), why)
		q.Consumer = []string{consumer, consumer, "another", "another"}[i]
		s.apply(store.Effect{Quarantine: &q})
	}
	last := s.inQuarantine(store.QuarantineQuery{})[3]
	_, err := store.AdmitAll(s.Context(), s.d, []int64{last.Number}, "me", "looked at it")
	s.ok(err, "admit")
	got := s.backlog().PerConsumer
	for i := range got {
		if k := &got[i]; k.QuarantineAge < 0 || k.QuarantineAge > time.Hour || k.Oldest < 0 ||
			k.Oldest > time.Hour {
			s.Errorf("for %s the oldest are %v and %v", k.Consumer, k.Oldest, k.QuarantineAge)
		} else {
			k.QuarantineAge, k.Oldest = 0, 0
			if ok := k.OldestCall > time.Hour && k.OldestCall < 3*time.Hour; ok != (k.Calls > 0) {
				s.Errorf("for %s the oldest call is %v old", k.Consumer, k.OldestCall)
			}
			k.OldestCall = 0
		}
	}
	apart := int64(len(message("q", 0).Data)) // of each message in quarantine
	mine := store.ConsumerBacklog{Consumer: consumer, Conflicts: 1, TooOld: 1, QuarantineBytes: 2 * apart,
		Calls: 2,
		ParkedCounts: store.ParkedCounts{Parked: 2, Dead: 1,
			Bytes:     int64(len(a.Message.Data)+len(b.Message.Data)) + 2,
			DeadBytes: int64(len(dead.Message.Data)) + 1}}
	others := store.ConsumerBacklog{Consumer: "another", TooOld: 1, QuarantineBytes: apart}
	status, err := s.d.Status(s.Context(), store.StatusQuery{ParkedOf: consumer})
	if s.ok(err, "count"); status.Quarantined != 2 {
		s.Errorf("%d messages are in quarantine, want 2", status.Quarantined)
	}
	if status.Parked.Oldest = 0; status.Parked != mine.ParkedCounts {
		s.Errorf("the consumer keeps %+v, want %+v", status.Parked, mine.ParkedCounts)
	}
	if want := []store.ConsumerBacklog{others, mine}; !reflect.DeepEqual(got, want) {
		s.Errorf("the backlog is %+v, want %+v", got, want)
	}
}
