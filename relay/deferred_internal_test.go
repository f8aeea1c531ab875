package relay

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// TestLateRefusalIsNotSavedByTheNextOwner loses a shard and takes it again while one of its deferred rows is
// being published. The other owner may have published the row meanwhile, so a late refusal must not defer the
// row again.
func TestLateRefusalIsNotSavedByTheNextOwner(t *testing.T) {
	r := New(memstore.New(nil), membroker.New(nil), nil)
	before, now := newShard(store.Shard{ID: 3, Epoch: 1}), newShard(store.Shard{ID: 3, Epoch: 3})
	before.gone = true
	r.byBucket[200] = now
	c := &call{deferred: []store.DeferredRow{{Row: store.Row{Seq: 7, Bucket: 200}, Attempts: 1}},
		shards: []*shard{before}, rows: 1}
	r.inFlight = 1
	r.answered(c, &broker.PublishError{Refused: map[int]error{0: errors.New("too large")}})
	if now.unsaved() || before.unsaved() {
		t.Errorf("to be saved: %v, %v", now.deferred, before.deferred)
	}
}

// TestDeferredRowsAreReadRarelyWhenThereAreNone checks the intervals between two reads of deferred rows.
func TestDeferredRowsAreReadRarelyWhenThereAreNone(t *testing.T) {
	now := time.Now()
	r := New(memstore.New(nil), membroker.New(nil), &Options{Now: func() time.Time { return now }})
	s := newShard(store.Shard{ID: 3, Epoch: 1})
	r.shards = map[int]*shard{3: s}
	pause := func() time.Duration {
		t.Helper()
		now = now.Add(time.Minute)
		for range 2 { // the result of the first read decides about the second
			now = now.Add(deferredPollSlow)
			if _, err := r.retryDeferred(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return r.deferredAt.Sub(now)
	}
	r.scheduleDeferred(time.Hour) // a row without a key
	if got := pause(); got != deferredPoll {
		t.Errorf("while a row is deferred: %v between two reads", got)
	}
	now = now.Add(time.Hour)
	s.blocked["topic\x00key"] = true
	if got := pause(); got != deferredPoll {
		t.Errorf("while a key is blocked: %v between two reads", got)
	}
	clear(s.blocked)
	if got := pause(); got != deferredPollSlow {
		t.Errorf("when nothing is deferred any more: %v between two reads", got)
	}
}

// TestRowOfAMissingTopicIsRetriedSoon checks that a row of a missing topic is retried soon, although the next
// read of deferred rows was planned for much later.
func TestRowOfAMissingTopicIsRetriedSoon(t *testing.T) {
	now := time.Now()
	r := New(memstore.New(nil), membroker.New(nil), &Options{Now: func() time.Time { return now }})
	s := newShard(store.Shard{ID: 3, Epoch: 1, First: 0, Last: store.Buckets - 1})
	g := &group{shards: []*shard{s}, tip: "t"}
	s.group = g
	for b := range r.byBucket {
		r.byBucket[b] = s
	}
	r.topics.missing["payments"] = missingTopic{broker.ErrNoTopic, now.Add(time.Minute)}
	r.deferredAt = now.Add(time.Hour)
	r.publishRows(g, []store.Row{{Message: skald.Message{Topic: "payments", ID: "1"}, Seq: 1}})
	if wait := r.deferredAt.Sub(now); !r.hasDeferred || wait > deferredPoll {
		t.Errorf("the next read is in %v", wait)
	}
}

// TestRefusedRowsOfATopicAreLoggedRarely defers 1,000 rows in 10 minutes.
func TestRefusedRowsOfATopicAreLoggedRarely(t *testing.T) {
	var log bytes.Buffer
	now := time.Now()
	r := New(memstore.New(nil), membroker.New(nil), &Options{Now: func() time.Time { return now },
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s := newShard(store.Shard{ID: 3, Epoch: 1})
	for n := range 1000 {
		row := &store.Row{Seq: int64(n)}
		row.Topic = "topic"
		r.deferRefused(s, &piece{}, row, errors.New("too large"))
		now = now.Add(600 * time.Millisecond)
	}
	if n := strings.Count(log.String(), "row deferred"); n != 5 || !strings.Contains(log.String(), "rows=200") {
		t.Errorf("%d lines: %s", n, log.String())
	}
}
