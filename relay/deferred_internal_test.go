package relay

import (
	"errors"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// The shard was lost and taken again while a row of its that was deferred was on its way: its owner meanwhile
// may have published the row, so a refusal that comes late must not set it aside once more.
func TestLateRefusalOfARowSetAsideIsNotSavedUnderTheNextOwnership(t *testing.T) {
	r := New(memstore.New(nil), membroker.New(nil), nil)
	before, now := newShard(store.Shard{ID: 3, Epoch: 1}), newShard(store.Shard{ID: 3, Epoch: 3})
	before.dead = true
	r.byBucket[200] = now
	c := &call{deferred: []store.DeferredRow{{Row: store.Row{Seq: 7, Bucket: 200}, Attempts: 1}},
		shards: []*shard{before}, rows: 1}
	r.inFlight = 1
	r.answered(c, &broker.PublishError{Refused: map[int]error{0: errors.New("too large")}})
	if now.unsaved() || before.unsaved() {
		t.Errorf("to be saved: %v, %v", now.deferred, before.deferred)
	}
}

// Once nothing is deferred any more, rows deferred are not looked for every second for ever.
func TestRowsSetAsideAreLookedForSeldomAgain(t *testing.T) {
	now := time.Now()
	r := New(memstore.New(nil), membroker.New(nil), &Options{Now: func() time.Time { return now }})
	l := newShard(store.Shard{ID: 3, Epoch: 1})
	r.shards = map[int]*shard{3: l}
	pause := func() time.Duration {
		t.Helper()
		now = now.Add(time.Minute)
		for range 2 { // what the first look finds decides about the second
			now = now.Add(asideSlow)
			if _, err := r.retryAside(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return r.asideAt.Sub(now)
	}
	r.putOff(time.Hour) // a row without a key
	if got := pause(); got != asideSoon {
		t.Errorf("while a row is put off: %v between two looks", got)
	}
	now = now.Add(time.Hour)
	l.held["topic\x00key"] = true
	if got := pause(); got != asideSoon {
		t.Errorf("while a key is held: %v between two looks", got)
	}
	clear(l.held)
	if got := pause(); got != asideSlow {
		t.Errorf("when nothing is set aside any more: %v between two looks", got)
	}
}

// A row that is deferred because its topic is known to be missing is looked for soon, however seldom the
// relay looked.
func TestRowOfATopicKnownToBeMissingIsLookedForSoon(t *testing.T) {
	now := time.Now()
	r := New(memstore.New(nil), membroker.New(nil), &Options{Now: func() time.Time { return now }})
	l := newShard(store.Shard{ID: 3, Epoch: 1, First: 0, Last: store.Buckets - 1})
	g := &group{shards: []*shard{l}, tip: "t"}
	l.group = g
	for b := range r.byBucket {
		r.byBucket[b] = l
	}
	r.topics.missing["payments"] = now.Add(time.Minute)
	r.asideAt = now.Add(time.Hour)
	r.handOver(g, []store.Row{{Message: skald.Message{Topic: "payments", ID: "1"}, Seq: 1}})
	if wait := r.asideAt.Sub(now); !r.hasAside || wait > asideSoon {
		t.Errorf("the next look is in %v", wait)
	}
}
