package pgstore

import (
	"context"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
)

// TestTickOfAFirstWindowIsKept checks that the tick at the end of a shard's first window is kept, even if
// the window was open for hours: otherwise the database would seem to have moved.
func TestTickOfAFirstWindowIsKept(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.store(t)
	ctx := context.Background()
	var ticks []string
	for range 2 {
		b.exec(t, `INSERT INTO {skald_outbox} (topic, type) VALUES ('t', 't')`)
		tip, err := store.Snapshot(ctx, s, "")
		if err != nil {
			t.Fatal(err)
		}
		ticks = append(ticks, tip)
	}
	b.exec(t, `UPDATE {skald_snapshot} SET at = now() - interval '2 h'`)
	b.exec(t, `UPDATE {skald_shard} SET base = CASE WHEN id > 0 THEN $1 ELSE '' END`, ticks[1])
	got, err := s.Lease(ctx, store.LeaseRequest{Owner: "a", Session: "1", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Maintain(ctx, store.Maintain{}); err != nil {
		t.Fatal(err)
	}
	shard := got.Shards[0]
	shard.Cursor.Tip = ticks[0] // as the relay has it; no row of the window is acknowledged
	if page, err := s.Pull(ctx, store.Window{Tip: ticks[0]}, 10); err != nil || len(page.Rows) != 1 {
		t.Errorf("the first window has %d rows, %v", len(page.Rows), err)
	}
	if _, err := s.Lease(ctx, store.LeaseRequest{Owner: "a", Session: "1", TTL: time.Minute,
		LastKnown: []store.Shard{shard}}); err != nil {
		t.Error(err)
	}
}
