package failure_test

import (
	"testing"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/store"
)

// TestChargesOutages checks that outages are free for a while, counted from the first failure or from the
// return of the database. After that they count, and only the number of attempts ends the work.
func TestChargesOutages(t *testing.T) {
	now := time.Now()
	retry := failure.Retry{InitialInterval: time.Second, MaxInterval: time.Minute, Attempts: 2,
		Age:             time.Hour,
		OutageRetryTime: 10 * time.Minute}
	ago := func(d time.Duration) failure.Record {
		return failure.Record{First: store.Failure{At: now.Add(-d)}}
	}
	for _, c := range []struct {
		class failure.Class
		since failure.Record
		up    time.Time
		want  bool
	}{
		{failure.Transient, failure.Record{}, time.Time{}, true},
		{failure.UnknownVersion, ago(time.Hour), time.Time{}, false},
		{failure.Outage, failure.Record{}, time.Time{}, false},
		{failure.Outage, ago(9 * time.Minute), time.Time{}, false},
		{failure.Outage, ago(10 * time.Minute), time.Time{}, true},
		{failure.Outage, ago(time.Hour), now.Add(-time.Minute), false},
		{failure.Outage, ago(time.Hour), now.Add(-10 * time.Minute), true},
	} {
		if got := retry.Charges(c.class, c.since, now, c.up); got != c.want {
			t.Errorf("%+v is charged: %v", c, got)
		}
	}
	old := ago(48 * time.Hour)
	old.Add(store.Failure{At: now}, true)
	if kind := retry.Dead(failure.Outage, old); kind != "" {
		t.Errorf("after a long stop it is dead immediately: %s", kind)
	}
	if wait := retry.Wait(failure.Outage, old); wait < failure.MostOutage || wait > 2*failure.MostOutage {
		t.Errorf("it waits for %v", wait)
	}
}
