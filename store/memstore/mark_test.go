package memstore

import (
	"testing"
	"time"

	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

func of(id string, keep time.Duration) store.Mark {
	return store.Mark{Consumer: "c", Identity: store.Identity{Source: "/s", ID: id}, Outcome: store.Done,
		Keep: keep}
}

// take commits a single mark.
func take(ms *markTable, m store.Mark, now time.Time) store.Outcome {
	v := ms.View()
	defer v.Commit()
	return v.Take(m, now).Outcome
}

func TestForgottenMarksRaiseTheFloor(t *testing.T) {
	ms, now := newMark(), time.Now()
	early, late := uuid7.New(now), uuid7.New(now.Add(time.Hour))
	take(ms, of(early, 0), now)
	before := now.Add(time.Minute)
	if n, gone := ms.Leaving(before, now), ms.Forget(before, now); n != 1 || gone != 1 {
		t.Errorf("%d are to be forgotten, %d were, want one", n, gone)
	}
	if got := take(ms, of(early, 0), now); got != store.TooOld {
		t.Errorf("the message comes again and is %v", got)
	}
	if got := take(ms, of(late, 0), now); got != store.Fresh {
		t.Errorf("a later one is %v", got)
	}
}

// TestMarksExpire checks that an expired mark only counts for a scope without Keep.
func TestMarksExpire(t *testing.T) {
	ms, now := newMark(), time.Now()
	take(ms, of("order-1", time.Minute), now)
	later := now.Add(time.Hour)
	if got := take(ms, of("order-1", 0), later); got != store.Done {
		t.Errorf("in a scope without Keep the mark is %v", got)
	}
	if got := take(ms, of("order-1", time.Minute), later); got != store.Fresh {
		t.Errorf("an hour later it is %v", got)
	}
}

func TestAMarkIsAnsweredOnce(t *testing.T) {
	ms := newMark()
	v := ms.View()
	v.Take(of("1", 0), time.Now())
	if err := v.Answer(of("1", 0)); err != nil {
		t.Error(err)
	}
	if err := v.Answer(of("1", 0)); err == nil {
		t.Error("it was answered twice")
	}
	if ms.Verdict(markKey{Consumer: "c", Identity: of("1", 0).Identity}, time.Now()).Outcome != store.Fresh {
		t.Error("others see what is not committed")
	}
}
