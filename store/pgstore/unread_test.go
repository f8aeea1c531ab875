package pgstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald/store"
)

func modes() []pgx.QueryExecMode {
	return []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
}

// everyStore returns a store for each way to a database whose sessions use an unusual text format.
func (b *bed) everyStore(t *testing.T) map[string]store.Store {
	t.Helper()
	b.defaults = oddText()
	out := map[string]store.Store{}
	for _, mode := range modes() {
		s := b.storeIn(t, mode)
		out[mode.String()] = s
		db := stdlib.OpenDBFromPool(s.pool)
		t.Cleanup(func() { go func(db *sql.DB) { _ = db.Close() }(db) })
		out["database/sql, "+mode.String()] = NewSQL(db, &Options{Schema: b.schema})
	}
	return out
}

// all reads the whole outbox.
func all(t *testing.T, s store.Store) []store.Row {
	t.Helper()
	tip, err := store.Snapshot(t.Context(), s, "")
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.Pull(t.Context(), store.Window{Tip: tip}, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	return page.Rows
}

// oddBase64 returns base64 of random bytes, damaged in some way.
func oddBase64(rnd *rand.Rand) string {
	const letters = "ABCDwxyz0129+/=== \n\r\t-_\u00e9"
	b := []byte(strings.Repeat("YWJj", rnd.IntN(40)) + []string{"", "YQ==", "YWI=", "YR==", "Y",
		"===="}[rnd.IntN(6)])
	for range rnd.IntN(4) {
		at := rnd.IntN(len(b) + 1)
		b = slices.Insert(b, at, letters[rnd.IntN(len(letters))])
	}
	return strings.ToValidUTF8(string(b), "?")
}

// TestWhatTheTableTakesCanBeRead checks that every reader can read every accepted row, for any content and
// any text format of the server.
func TestWhatTheTableTakesCanBeRead(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	rnd := rand.New(rand.NewPCG(4, 8))
	var headers []string
	for range 700 {
		text, err := json.Marshal([][2]string{{"h", oddBase64(rnd)}})
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, string(text))
	}
	headers = append(headers, `[["h","YWJj ZGVm"]]`, `[["h","YQ==YQ=="]]`, `[]`, `[["h",""]]`, `[["h",null]]`,
		`null`, `{}`, `[["h","\u0059Q=="]]`, `[["\ud83d\ude00","YQ=="]]`)
	times := []string{"infinity", "-infinity", "0001-01-01 00:00:00+00", "0001-12-31 23:59:59+00 BC",
		"9999-12-31 23:59:59.999999+00", "10000-01-01 00:00:00+00",
		"294276-12-31 23:59:59+00", "4713-01-01 00:00:00+00 BC", "2026-02-03 04:05:06.789+00"}
	taken, refused := 0, 0
	put := func(columns, value string) {
		for _, more := range []string{"", ", bucket"} { // a row with a bucket is checked less
			set := "INSERT INTO {skald_outbox} (topic, type, data_bytes, key_bytes, " + columns + more +
				`) VALUES ('t', 'x', '\x005c27ff', '\xff5c00', $1`
			if more != "" {
				set += ", 7"
			}
			if _, err := b.pool.Exec(context.Background(), b.q(set+")"), pgx.QueryExecModeExec,
				value); err != nil {
				refused++
			} else {
				taken++
			}
		}
	}
	for _, h := range headers {
		put("headers", h)
	}
	for _, at := range times {
		put("time", at)
	}
	if taken < 100 || refused < 100 {
		t.Fatalf("%d rows are taken and %d refused", taken, refused)
	}
	for name, s := range b.everyStore(t) {
		rows := all(t, s)
		for _, r := range rows {
			if r.Fault != "" || string(r.Data) != "\x00\\'\xff" || string(r.Key) != "\xff\\\x00" ||
				r.Time.Year() < 1 || r.Time.Year() > 9999 {
				t.Errorf("%s: row %d of %v: %q, key %q, data %q", name, r.Seq, r.Time, r.Fault, r.Key, r.Data)
			}
		}
		if len(rows) != taken {
			t.Errorf("%s: %d rows of %d", name, len(rows), taken)
		}
	}
}

// TestRowThatCannotBeRead checks that an unreadable stored row is deferred unchanged with its ID, and that
// other rows are read by Pull and Retry. A repaired copy can be read.
func TestRowThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	// as rows were stored before the checks existed
	b.exec(t, `DROP TRIGGER zz_skald_limits ON {skald_outbox}`)
	for i, row := range []string{
		`NULL, now()`, `'[["h","YWJj ZGVm"]]', now()`, `'["h"]', now()`, `NULL, 'infinity'`,
		`NULL, '-infinity'`, `NULL, '0044-03-15 00:00:00+00 BC'`, `NULL, '9999-12-31 23:59:59+00'`,
	} {
		b.exec(t,
			`INSERT INTO {skald_outbox} (topic, key, type, data, headers, time) VALUES ('t', $1, 'x', '7', `+
				row+`)`, fmt.Sprint(i))
	}
	for name, s := range b.everyStore(t) {
		t.Run(name, func(t *testing.T) { unreadable(t, b, s) })
		b.exec(t, `TRUNCATE {skald_deferred}`)
		b.exec(t, `UPDATE {skald_relay} SET until = now() - interval '1 hour'`)
	}
}

func unreadable(t *testing.T, b *bed, s store.Store) {
	ctx := t.Context()
	leased, err := s.Lease(ctx, store.LeaseRequest{Owner: t.Name(), Session: "1", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var bad []int64
	var ids []int
	rows := all(t, s)
	for _, l := range leased.Shards {
		p := store.Progress{Shard: l.ID, Epoch: l.Epoch, Token: l.Token}
		for _, r := range rows {
			if r.Fault != "" && l.First <= r.Bucket && r.Bucket <= l.Last {
				bad = append(bad, r.Seq)
				p.Deferred = append(p.Deferred, store.DeferredRow{Row: r, Attempts: 1, Why: r.Fault})
			}
		}
		ids = append(ids, l.ID)
		if ok, err := s.Apply(ctx, store.Effect{Shard: &p}); err != nil || !ok[0] {
			t.Fatalf("%v, %v", ok, err)
		}
	}
	if slices.Sort(bad); len(rows) != 7 || !slices.Equal(bad, []int64{2, 3, 4, 5, 6}) {
		t.Fatalf("of %d rows these cannot be read: %v", len(rows), bad)
	}
	due, err := store.DueRows(ctx, s, ids, 10)
	if err != nil || len(due) != len(bad) {
		t.Fatalf("%d rows are deferred, %v", len(due), err)
	}
	for _, a := range due {
		if a.Fault == "" || !strings.HasPrefix(a.Why, "it cannot be read: ") ||
			string(a.Key) != fmt.Sprint(a.Seq-1) {
			t.Errorf("row %d is deferred because of %q, now %q", a.Seq, a.Why, a.Fault)
		}
	}
	b.exec(t,
		`UPDATE {skald_deferred} SET headers = convert_to('[["h","YWJj"]]', 'UTF8'), time = '2026-01-02 03:04:05+00'`)
	due, err = store.DueRows(ctx, s, ids, 10)
	if err != nil || len(due) != len(bad) {
		t.Fatalf("%d rows are deferred, %v", len(due), err)
	}
	for _, a := range due {
		if a.Fault != "" || string(a.Data) != "7" || string(a.Headers[0].Value) != "abc" ||
			!a.Time.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
			t.Errorf("mended, row %d is %+v", a.Seq, a)
		}
	}
}

// TestKeptMessageThatCannotBeRead checks that an unreadable parked message is claimed with a Fault, and
// that others are not affected. Unreadable times are not stored.
func TestKeptMessageThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	var es []store.Effect
	for i := range 3 {
		m := aMessage(fmt.Sprint("k", i))
		m.Source, m.Data = "/orders", []byte("\x00\xff\\'")
		es = append(es,
			store.Effect{Park: &store.Park{Parked: store.Parked{Consumer: "c",
				Identity: store.Identity{Source: m.Source, ID: fmt.Sprint(i)}, Message: m, Attempts: 1}}})
	}
	if _, err := b.store(t).Apply(ctx, es...); err != nil {
		t.Fatal(err)
	}
	b.exec(t, `UPDATE {skald_parked} SET envelope = '\x7b' WHERE id = '1'`)
	for name, s := range b.everyStore(t) {
		got, err := s.Claim(ctx, store.ClaimRequest{Consumer: "c", Session: "life",
			ClaimSize: store.ClaimSize{Keys: 9}, Lease: 0})
		if err != nil || len(got.Parked) != 3 {
			t.Fatalf("%s: %d are claimed, %v", name, len(got.Parked), err)
		}
		for i, p := range got.Parked {
			if (p.Fault != "") != (i == 1) || string(p.Message.Data) != "\x00\xff\\'" ||
				string(p.Message.Key) != fmt.Sprint("k", i) || p.Message.Source != "/orders" {
				t.Errorf("%s: message %s has the fault %q and is %+v", name, p.ID, p.Fault, p.Message)
			}
		}
		if kept, err := store.ListParked(ctx, s, store.ParkedQuery{Consumer: "c", Limit: 9}); err != nil ||
			len(kept) != 3 {
			t.Errorf("%s: %d are listed, %v", name, len(kept), err)
		}
		if _, err := s.Examine(ctx, store.Exam{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if back, err := store.ReadBacklog(ctx, s); err != nil || back.Oldest < 0 {
			t.Errorf("%s: the oldest is %v old, %v", name, back.Oldest, err)
		}
	}
	for _, set := range []string{"since = 'infinity'", "due = '-infinity'", "first_at = '0044-03-15 BC'",
		"call = 'no JSON'"} {
		if _, err := b.pool.Exec(ctx, b.q(`UPDATE {skald_parked} SET `+set)); err == nil {
			t.Errorf("%s is kept", set)
		}
	}
}

// TestOldestRowOfAll checks that a row with a date two thousand years ago has the largest possible age, and
// no negative one.
func TestOldestRowOfAll(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.exec(t, `INSERT INTO {skald_outbox} (topic, type, time) VALUES ('t', 'x', '0001-01-01 00:00:00+00')`)
	if back, err := store.ReadBacklog(t.Context(), b.store(t)); err != nil ||
		back.Oldest < 290*365*24*time.Hour {
		t.Errorf("the oldest is %v old, %v", back.Oldest, err)
	}
}
