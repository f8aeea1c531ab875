package memstore

import (
	"errors"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

func draw(o *outboxTable, id string, now time.Time) []outboxRow {
	m := skald.Message{ID: id, Topic: "t", Type: "t", Key: []byte("k"), Time: now}
	return []outboxRow{o.Draw(m, now)}
}

// TestALateCommitIsNotMissed checks that a row with a small number is in the next snapshot, at its place in
// the order, even if it commits late.
func TestALateCommitIsNotMissed(t *testing.T) {
	o, now := newOutbox("db", "/s", 1), time.Now()
	early, late := draw(o, "1", now), draw(o, "2", now)
	o.Publish(late)
	first, err := o.Snapshot("")
	if err != nil {
		t.Fatal(err)
	}
	o.Publish(early)
	second, _ := o.Snapshot(first)
	for want, w := range map[string]store.Window{"2": {Tip: first}, "1": {Base: first, Tip: second}} {
		page, err := o.Pull(w, 9)
		if err != nil || len(page.Rows) != 1 || page.Rows[0].ID != want || !page.Done {
			t.Errorf("from %q to %q: %+v, %v, want row %s", w.Base, w.Tip, page, err, want)
		}
	}
	if rows := o.Rows(); rows[0].ID != "1" || rows[1].ID != "2" {
		t.Errorf("the rows are %v", rows)
	}
}

func TestShardsAreSharedAndGuarded(t *testing.T) {
	o, now := newOutbox("db", "/s", 3), time.Now()
	first := o.Lease(store.LeaseRequest{Owner: "a", Session: "1"}, now)
	if len(first.Shards) != 3 {
		t.Fatalf("alone it gets %d of 3", len(first.Shards))
	}
	o.Lease(store.LeaseRequest{Owner: "b", Session: "1"}, now)
	again := o.Lease(store.LeaseRequest{Owner: "a", Session: "1", Release: []int{2}}, now)
	second := o.Lease(store.LeaseRequest{Owner: "b", Session: "1"}, now)
	if again.Share != 2 || len(again.Shards) != 2 || len(second.Shards) != 1 {
		t.Errorf("a has %+v, b has %+v", again, second)
	}
	lost := first.Shards[2]
	report := store.Progress{Shard: 2, Epoch: lost.Epoch, Token: lost.Token}
	if err := o.Guard(report); !errors.Is(err, store.ErrLost) {
		t.Errorf("a still reports on the shard that b has: %v", err)
	}
}

// TestDeferredRowsKeepTheirOrder checks that deferred rows of a key are due one after the other.
func TestDeferredRowsKeepTheirOrder(t *testing.T) {
	o, now := newOutbox("db", "/s", 1), time.Now()
	o.Publish(append(draw(o, "1", now), draw(o, "2", now)...))
	rows := o.Rows()
	o.Report(store.Progress{Deferred: []store.DeferredRow{
		{Row: rows[0], Attempts: 1, Due: time.Minute}, {Row: rows[1]}}}, now)
	if due := o.Due([]int{0}, 9, now); len(due) != 0 {
		t.Errorf("at once %v are due", due)
	}
	if due := o.Due([]int{0}, 9, now.Add(time.Hour)); len(due) != 1 || due[0].ID != "1" {
		t.Errorf("later %v are due, want the first alone", due)
	}
	if o.Drop("2"); !o.Refused("1") || len(o.Deferred()) != 2 {
		t.Error("a row that only waits was dropped")
	}
}
