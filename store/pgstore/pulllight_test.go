package pgstore

import (
	"bytes"
	"context"
	"testing"

	"github.com/skald-go/skald/store"
)

// TestPullLightReadsNoHeavyRow checks the server's side of the limit on bytes: the client would drop these
// rows only after the server has sent them.
func TestPullLightReadsNoHeavyRow(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.store(t)
	ctx := context.Background()
	b.exec(t, `ALTER TABLE {skald_outbox} DISABLE TRIGGER USER`)
	for _, column := range []string{"data", "key", "topic", "subject"} {
		b.exec(t, `INSERT INTO {skald_outbox} (topic, type, source, key, data, subject, bucket)
			SELECT `+pick(column, "topic")+`, 'type', '/s', `+pick(column, "key")+`, `+pick(column, "data")+`, `+
			pick(column, "subject")+`, 1 FROM generate_series(1, 3)`)
	}
	tip, err := store.Snapshot(ctx, s, "")
	if err != nil {
		t.Fatal(err)
	}
	top := asTick(t, tip)
	rows, err := b.pool.Query(ctx, s.pg.SQL["PullLight"], top.ID, top.Token, int64(0), int32(100),
		int64(1000))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n, bytesRead := 0, 0
	for ; rows.Next(); n++ {
		bytesRead += len(bytes.Join(rows.RawValues(), nil))
	}
	if err := rows.Err(); err != nil || n != 12 || bytesRead > n*1000 {
		t.Errorf("%d rows have %d bytes: %v", n, bytesRead, err)
	}
}

func pick(heavy, column string) string {
	if heavy == column {
		return "repeat('x', 100000)"
	}
	return "'x'"
}

// TestLightPagesAreNotWeighedFirst checks that pages of light rows need no sum of bytes.
func TestLightPagesAreNotWeighedFirst(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.store(t)
	ctx := context.Background()
	b.fillOutbox(t, 1000)
	tip, err := store.Snapshot(ctx, s, "")
	if err != nil {
		t.Fatal(err)
	}
	s.pg.SQL["PullOn"] = "SELECT 1 / 0"
	for after, n := int64(0), 0; ; n++ {
		page, err := s.Pull(ctx, store.Window{Tip: tip, After: after}, 400)
		if err != nil || n > 2 || len(page.Rows) == 0 {
			t.Fatalf("page %d has %d rows, done is %v: %v", n, len(page.Rows), page.Done, err)
		}
		if after = page.Rows[len(page.Rows)-1].Seq; page.Done {
			return
		}
	}
}
