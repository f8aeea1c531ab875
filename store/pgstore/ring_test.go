package pgstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/admin"
)

var errKilled = errors.New("killed")

// mortal dies after that many transactions. The last one is committed, but its result is lost.
type mortal struct {
	Database
	left int
}

func (m *mortal) Begin(ctx context.Context) (pgx.Tx, error) {
	if m.left--; m.left < 0 {
		return nil, errKilled
	}
	return m.Database.Begin(ctx)
}

func TestRings(t *testing.T) {
	t.Parallel()
	at := func(d int) time.Time { return time.UnixMilli(0).Add(time.Duration(d) * admin.Day) }
	rs := admin.Rings{{Slots: 10}, {From: at(100).UnixMilli(), First: 10, Slots: 4}}
	for d, want := range map[int]int{0: 0, 99: 9, 100: 10, 101: 11, 107: 13, 108: 10} {
		if got := rs.Leaf(at(d), admin.Day); got != want {
			t.Errorf("day %d falls on %d, want %d", d, got, want)
		}
	}
	for _, c := range []struct {
		first, last int
		early       time.Duration
		want        []int
	}{
		{90, 93, 0, []int{0, 1, 2, 3}},
		{98, 101, 0, []int{8, 9, 10, 11}}, // and the day that begins with the new ring, for the old one: 0
		{101, 102, 0, []int{11, 12}},
		{99, 101, admin.Day, []int{9, 10, 11, 13}},
	} {
		live := rs.Live(at(c.first), at(c.last), admin.Day, c.early)
		for _, n := range c.want {
			if !live[n] {
				t.Errorf("of days %d to %d leaf %d is not live: %v", c.first, c.last, n, live)
			}
		}
		if len(live) > len(c.want)+1 {
			t.Errorf("of days %d to %d %v are live", c.first, c.last, live)
		}
	}
	if got := rs.Leaves(); len(got) != 14 || got[13] != 13 {
		t.Errorf("the leaf numbers are %v", got)
	}
	for _, text := range []string{`{`, `[]`, `[{"slots":0}]`, `[{"slots":4,"from":2},{"slots":4,"from":1}]`,
		`[{"slots":4,"first":-1}]`} {
		if _, err := admin.Parse(text, nil); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}

// TestOutboxRingChanges checks that new rows go into the leaves of the new ring, and that those of the old
// one are kept as long as before.
func TestOutboxRingChanges(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	s := b.store(t)
	today := one[int](t, b, `SELECT floor(extract(epoch FROM now()) / 86400)::integer`)
	for d := range 8 {
		b.exec(t, insertOld, (today-d)%10)
	}
	b.exec(t, `GRANT TRUNCATE ON {skald_outbox_0} TO PUBLIC`)
	stale := admin.Keeping{Retention: store.Retention{Outbox: 7 * admin.Day, Marks: 30 * admin.Day},
		Now: time.Now(), Rows: admin.Default()}
	for budget := 1; ; budget++ {
		if _, err := Resize(ctx, &mortal{b.pool, budget},
			&ResizeOptions{Schema: b.schema, Outbox: 13}); err == nil {
			break
		} else if !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		b.exec(t, `INSERT INTO {skald_outbox} (topic, key, type, data) VALUES ('orders', 'a', 't', '1')`)
	}
	b.exec(t, `INSERT INTO {skald_outbox} (topic, key, type, data) VALUES ('orders', 'new', 't', '1')`)
	if slot := one[int](t, b, `SELECT slot FROM {skald_outbox} WHERE key = 'new'`); slot != today%13 {
		t.Errorf("a row of today lies in %d, want %d", slot, today%13)
	}
	for _, right := range []string{`has_table_privilege('public', '{skald_outbox_12}', 'TRUNCATE')`,
		`EXISTS (SELECT FROM pg_inherits WHERE inhrelid = '{skald_outbox_12}'::regclass)`} {
		if !one[bool](t, b, `SELECT `+right) {
			t.Errorf("not %s", right)
		}
	}
	f := newFollower(s)
	if err := f.turn(ctx, 100); err != nil {
		t.Fatal(err)
	}
	cover(t, s, f.base)
	rows := one[int](t, b, `SELECT count(*) FROM {skald_outbox}`)
	if len(f.rows) != rows {
		t.Errorf("%d rows of %d arrived", len(f.rows), rows)
	}
	// A relay that read the ring before the change must not empty a leaf by it.
	for n := range 12 {
		// for any ring that it had
		stale.Rows = admin.Rings{{Slots: 1, First: n}, {From: 1, Slots: 1, First: 12}}
		if err := s.steward.EmptyRows(ctx, &stale); err != nil {
			t.Fatal(err)
		}
	}
	maintain(t, s)
	if n := one[int](t, b, `SELECT count(*) FROM {skald_outbox}`); n != rows {
		t.Errorf("%d rows are left of %d that are young", n, rows)
	}
	// By an injected clock: after a week and a turn of the new ring all are gone, for any start of the
	// test. A leaf of both rings waits until it has no day of either.
	const last = 9 + 14
	for d := 1; d <= last; d++ {
		replaced(s, "Now", fmt.Sprintf(`SELECT floor(extract(epoch FROM clock_timestamp()))::bigint + %d`,
			d*86400))
		maintain(t, s)
		n := one[int](t, b, `SELECT count(*) FROM {skald_outbox} WHERE key = 'new'`)
		if d <= 7 && n != 1 {
			t.Errorf("the row of today is gone in %d days", d)
		}
	}
	if n := one[int](t, b, `SELECT count(*) FROM {skald_outbox}`); n != 0 {
		t.Errorf("%d rows are left in %d days", n, last)
	}
	if _, err := Resize(ctx, b.pool, &ResizeOptions{Schema: b.schema, Outbox: 3}); err == nil {
		t.Error("a ring of 3 is taken")
	}
}

// TestRingChangeBesideOpenWriters checks that a change that cannot get its lock gives up and tries again,
// so that a writer never waits long, and that it continues when the table is free.
func TestRingChangeBesideOpenWriters(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	tx, err := b.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx,
		b.q(
			`INSERT INTO {skald_outbox} (topic, key, type, data) VALUES ('orders', 'a', 't', '1')`)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := Resize(ctx, b.pool, &ResizeOptions{Schema: b.schema, Outbox: 11})
		done <- err
	}()
	waited := 0
	for waited < 2 { // it tried, gave up, and tried again
		for one[int](t, b,
			`SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock' AND relation = '{skald_outbox}'::regclass`) == 0 {
			select {
			case err := <-done:
				t.Fatalf("it did not wait for the open writer: %v", err)
			default:
			}
		}
		// waits no longer than it does
		b.exec(t, `INSERT INTO {skald_outbox} (topic, key, type, data) VALUES ('orders', 'b', 't', '1')`)
		waited++
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := one[int](t, b, `SELECT count(*) FROM {skald_outbox}`); n != 3 {
		t.Errorf("%d rows are there of 3", n)
	}
}
