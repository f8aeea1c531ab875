package pgstore

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
)

// TestRetentionThatWasDeadFor60Days checks 60 days without maintenance. No INSERT failed, and all
// unpublished rows exist. The next run empties all slots that it may immediately, and the others as the
// rings turn. Young rows never go.
func TestRetentionThatWasDeadFor60Days(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	s := b.store(t)
	today := one[int](t, b, `SELECT floor(extract(epoch FROM now()) / 86400)::integer`)
	for ago := 60; ago >= 0; ago-- { // the default of slot, as on that day
		b.exec(t,
			`INSERT INTO {skald_outbox} (topic, key, type, data, slot) VALUES ('orders', $2, 't', '1', $1)`,
			(today-ago)%10, fmt.Sprint(ago))
		b.exec(t,
			`INSERT INTO {skald_mark} (consumer, source, id, outcome, at) VALUES ('c', '/s', $1::integer::text, 1, now() - $1::integer * interval '1 day')`, ago)
	}
	left := func(what string) (ago []string) {
		return one[[]string](t, b,
			`SELECT coalesce(array_agg(key ORDER BY seq), ARRAY[]::text[]) FROM {skald_outbox} WHERE `+what)
	}
	if done := maintain(t, s); len(left("true")) != 61 || len(done.Left) == 0 {
		t.Fatalf("before anything is published maintain did %+v; %d rows are left", done, len(left("true")))
	}
	f := newFollower(s)
	for range 7 {
		if err := f.turn(ctx, 10); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.rows) != 61 {
		t.Fatalf("%d rows of 61 arrived", len(f.rows))
	}
	cover(t, s, f.base)
	if n := one[int](t, b, `SELECT count(*) FROM {skald_mark}`); n != 30 {
		t.Errorf("%d marks are left of the 30 that are young", n)
	}
	seen := func(ago int) bool {
		v, err := s.Seen(ctx, "c", []store.Identity{{Source: "/s", ID: fmt.Sprint(ago)}})
		if err != nil {
			t.Fatal(err)
		}
		return v[0].Outcome == store.Done
	}
	for d := range 12 { // the next days, by an injected clock
		replaced(s, "Now", fmt.Sprintf(`SELECT floor(extract(epoch FROM clock_timestamp()))::bigint + %d`,
			d*86400))
		if done := maintain(t, s); len(done.Left) > 0 {
			t.Errorf("%d days on maintain could not have %v", d, done.Left)
		}
		have := strings.Join(left("true"), " ")
		for ago := range 8 {
			if young := ago+d <= 6; young && !strings.Contains(" "+have+" ", fmt.Sprintf(" %d ", ago)) {
				t.Fatalf("%d days on the row of %d days ago is gone: %s are left", d, ago, have)
			}
		}
		for ago := range 31 {
			if ago < 30 && !seen(ago) {
				t.Fatalf("%d days on the mark of %d days ago is gone", d, ago)
			}
		}
		if d == 0 && len(left("true")) > 9*7 {
			t.Errorf("it has emptied nothing at once: %s are left", have)
		}
		b.exec(t,
			`INSERT INTO {skald_outbox} (topic, key, type, data, slot) VALUES ('orders', 'later', 't', '1', $1)`, (today+d)%10)
		if err := f.turn(ctx, 10); err != nil {
			t.Fatal(err)
		}
		cover(t, s, f.base)
	}
	if have := left("key <> 'later'"); len(have) > 0 {
		t.Errorf("12 days on %v are left", have)
	}
}

// TestRetentionBesideALongRead checks that a long read, such as a dump, delays only the retention, which
// gives up.
func TestRetentionBesideALongRead(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	s, slot := b.store(t), b.oldSlot(t)
	f := newFollower(s)
	b.exec(t, insertOld, slot)
	if err := f.turn(ctx, 10); err != nil {
		t.Fatal(err)
	}
	cover(t, s, f.base)
	read, err := b.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	count := func() (n int) {
		if err := read.QueryRow(ctx, b.q(`SELECT count(*) FROM {skald_outbox}`)).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(); n != 1 {
		t.Fatalf("the read sees %d rows", n)
	}
	for range 3 {
		done := make(chan store.Maintained, 1)
		go func() { done <- maintain(t, s) }()
		// writers continue
		b.exec(t, `INSERT INTO {skald_outbox} (topic, key, type, data) VALUES ('orders', 'b', 't', '1')`)
		if err := f.turn(ctx, 10); err != nil {
			t.Fatal(err)
		}
		if d := <-done; len(d.Left) != 1 || d.Rows != 0 {
			t.Errorf("Maintain during a long read returned %+v", d)
		}
	}
	if n := count(); n != 1 {
		t.Errorf("the read sees %d rows at its end", n)
	}
	if err := read.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if d := maintain(t, s); d.Rows != -1 || len(d.Left) > 0 {
		t.Errorf("behind the read maintain did %+v", d)
	}
	if len(f.rows) != 4 {
		t.Errorf("%d rows of 4 arrived", len(f.rows))
	}
}

// TestRetentionUnderGenericPlans checks that an open handler locks only its own leaf even with generic
// plans, which lock every possible table. The retention takes all others.
func TestRetentionUnderGenericPlans(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	s, slot := b.store(t), b.oldSlot(t)
	b.exec(t, insertOld, slot)
	f := newFollower(s)
	if err := f.turn(ctx, 10); err != nil {
		t.Fatal(err)
	}
	cover(t, s, f.base)
	for range 10 { // until PostgreSQL uses a generic plan
		m := aMark()
		u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{m}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Tx().Exec(ctx, `SET LOCAL plan_cache_mode = force_generic_plan`); err != nil {
			t.Fatal(err)
		}
		if _, err := u.Tx().Exec(ctx,
			b.q(`INSERT INTO {skald_outbox} (topic, key, type, data) SELECT $1::text, 'a', 't', '1'`),
			"orders"); err != nil {
			t.Fatal(err)
		}
		if err := s.Write(ctx, u.Tx(), store.Effect{Rows: rowsOf(aMessage("a"))}); err != nil {
			t.Fatal(err)
		}
		locked := one[int](t, b,
			`SELECT count(*) FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation JOIN pg_namespace AS n ON n.oid = c.relnamespace
			WHERE n.nspname = $1 AND c.relkind = 'r' AND c.relispartition`, b.schema)
		if locked > 2 {
			t.Fatalf("an open handler has %d leaf tables locked", locked)
		}
		if err := u.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
	u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{aMark()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write(ctx, u.Tx(), store.Effect{Rows: rowsOf(aMessage("a"))}); err != nil {
		t.Fatal(err)
	}
	if d := maintain(t, b.store(t)); d.Rows != -1 || len(d.Left) > 0 {
		t.Errorf("Maintain during a handler with generic plans returned %+v", d)
	}
	if err := u.Commit(ctx); err != nil {
		t.Fatal(err)
	}
}
