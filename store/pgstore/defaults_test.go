package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// TestReadOnlyDefault checks that the store works with a default of read-only transactions.
func TestReadOnlyDefault(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement,
		pgx.QueryExecModeSimpleProtocol} {
		b := newBed(t)
		b.defaults = map[string]string{"default_transaction_read_only": "on"}
		t.Run("pgx/"+mode.String(), func(t *testing.T) { everyPath(t, b.storeIn(t, mode)) })
		b = newBed(t)
		b.defaults = map[string]string{"default_transaction_read_only": "on"}
		t.Run("database/sql/"+mode.String(), func(t *testing.T) {
			db := stdlib.OpenDBFromPool(b.storeIn(t, mode).pool)
			defer func() { _ = db.Close() }()
			everyPath(t, NewSQL(db, &Options{Schema: b.schema}))
		})
	}
}

// everyPath uses a store as all components do.
func everyPath[TTx any](t *testing.T, d store.Driver[TTx]) {
	t.Helper()
	ctx, n := t.Context(), 0
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	message := func() skald.Message {
		return skald.Message{ID: uuid7.New(time.Now()), Time: time.Now(), Topic: "t", Type: "x",
			Key: []byte("k"), ContentType: "application/json", Data: []byte("{}")}
	}
	begin := func() (store.Unit[TTx], store.Effect) {
		t.Helper()
		n++
		mark := store.Mark{Consumer: "c", Identity: store.Identity{Source: "/s", ID: fmt.Sprint(n)},
			Outcome: store.Done}
		u, err := d.Begin(ctx, store.Intake{Marks: []store.Mark{mark},
			Locks: []store.Lock{{Space: "a", Key: "b"}}})
		must("begin", err)
		return u, store.Effect{Mark: &mark, Rows: []skald.Message{message()}}
	}
	must("check", errors.Join(d.Check(ctx, store.App), d.Check(ctx, store.Relay)))
	u, _ := begin()
	must("write", d.Write(ctx, u.Tx(), store.Effect{Rows: []skald.Message{message()}}))
	must("commit", u.Commit(ctx))
	u, e := begin()
	stored, err := u.Rollback(ctx, e)
	must("roll back with something instead", err)
	u, _ = begin()
	_, err = u.Rollback(ctx)
	must("roll back", err)
	ok, err := d.Apply(ctx, e)
	must("apply", err)
	if !stored[0] || ok[0] {
		t.Errorf("the effect of the rollback: stored %v; the same again: stored %v", stored, ok)
	}
	seen, err := d.Seen(ctx, "c", []store.Identity{{Source: "/s", ID: "1"}, {Source: "/s", ID: "2"},
		{Source: "/s", ID: "3"}})
	must("seen", err)
	if seen[0].Outcome != store.Done || seen[1].Outcome != store.Done || seen[2].Outcome != store.Fresh {
		t.Errorf("seen are %v", seen)
	}
	held, err := d.Lease(ctx, store.LeaseRequest{Owner: "o", Session: "l", TTL: time.Minute})
	must("lease", err)
	tip, err := store.Snapshot(ctx, d, "")
	must("tick", err)
	page, err := d.Pull(ctx, store.Window{Tip: tip}, 10)
	must("pull", err)
	if len(page.Rows) != 2 {
		t.Fatalf("%d rows", len(page.Rows))
	}
	shard := held.Shards[slices.IndexFunc(held.Shards,
		func(l store.Shard) bool { return l.First <= page.Rows[0].Bucket && page.Rows[0].Bucket <= l.Last })]
	ok, err = d.Apply(ctx, store.Effect{Shard: &store.Progress{Shard: shard.ID, Epoch: shard.Epoch,
		Token:  shard.Token,
		Cursor: &store.Cursor{Base: tip}, Deferred: []store.DeferredRow{{Row: page.Rows[0], Attempts: 1,
			Why: "no"}}}})
	must("progress", err)
	keys, err := store.DeferredKeys(ctx, d, []int{shard.ID})
	must("held", err)
	aside, err := store.DueRows(ctx, d, []int{shard.ID}, 10)
	must("retry", err)
	if !ok[0] || len(keys) != 1 || len(aside) != 1 {
		t.Errorf("progress stored: %v; %d keys blocked, %d rows deferred", ok, len(keys), len(aside))
	}
	_, err = d.Maintain(ctx, store.Maintain{})
	must("maintain", err)
	_, err = store.ReadBacklog(ctx, d)
	must("backlog", err)
	_, err = d.Recover(ctx, nil)
	must("look what moved", err)
}

// TestReadOnlyDefaultOfTheCaller checks that the error names the remedy for a read-only transaction of the
// caller.
func TestReadOnlyDefaultOfTheCaller(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.defaults = map[string]string{"default_transaction_read_only": "on"}
	s := b.store(t)
	row := store.Effect{Rows: []skald.Message{aMessage("a")}}
	refused := func(who string, err error, outage bool) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "READ WRITE") ||
			!strings.Contains(err.Error(), "default_transaction_read_only = off") || !outage {
			t.Errorf("%s: %v", who, err)
		}
	}
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	err = s.Write(t.Context(), tx, row)
	refused("pgx", err, s.Outage(err))
	db := stdlib.OpenDBFromPool(s.pool)
	defer func() { _ = db.Close() }()
	other := NewSQL(db, &Options{Schema: b.schema})
	own, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.Rollback() }()
	err = other.Write(t.Context(), own, row)
	refused("database/sql", err, other.Outage(err))
}

const shortTimeout = time.Second // enough for a slow machine, if there is nothing to wait for

// TestStatementTimeoutShorterThanAPage checks that a page is read even if it takes longer than the
// session's statement_timeout, because a relay limits its calls itself.
func TestStatementTimeoutShorterThanAPage(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.defaults = map[string]string{"statement_timeout": shortTimeout.String()}
	s := b.store(t)
	b.exec(t, "INSERT INTO {skald_outbox} (topic, type) VALUES ('t', 'x')")
	tip, err := store.Snapshot(t.Context(), s, "")
	if err != nil {
		t.Fatal(err)
	}
	if page, err := s.Pull(t.Context(), store.Window{Tip: tip}, 10); err != nil || len(page.Rows) != 1 {
		// its statements are prepared
		t.Fatalf("%d rows, %v", len(page.Rows), err)
	}
	holder, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(context.Background()) }()
	if _, err := holder.Exec(t.Context(),
		b.q("LOCK TABLE {skald_outbox} IN ACCESS EXCLUSIVE MODE")); err != nil {
		t.Fatal(err)
	}
	type read struct {
		page store.Page
		err  error
	}
	done := make(chan read, 1)
	go func() {
		page, err := s.Pull(t.Context(), store.Window{Tip: tip}, 10)
		done <- read{page, err}
	}()
	waits(t, b, 2*shortTimeout)
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.err != nil || len(got.page.Rows) != 1 {
		t.Errorf("%d rows, %v", len(got.page.Rows), got.err)
	}
}

// waits returns when a driver has waited that long for a lock.
func waits(t *testing.T, b *bed, least time.Duration) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; {
		n := one[int](t, b,
			`SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'
			AND clock_timestamp() - query_start > make_interval(secs => $2)`, b.name(), least.Seconds())
		if n > 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("no session waits for a lock")
		}
	}
}

// TestStatementTimeoutShorterThanAnIntake checks an intake that waits longer than the statement_timeout: it
// fails as an outage with a clear error, stores nothing, and succeeds when the rival is gone.
func TestStatementTimeoutShorterThanAnIntake(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.defaults = map[string]string{"statement_timeout": shortTimeout.String()}
	s := b.store(t)
	db := stdlib.OpenDBFromPool(s.pool)
	defer func() { _ = db.Close() }()
	b.defaults = nil
	rival := b.store(t)
	mark := store.Mark{Consumer: "c", Identity: store.Identity{Source: "/s", ID: "1"}, Outcome: store.Done}
	in := store.Intake{Marks: []store.Mark{mark}}
	holds, err := rival.Begin(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	named := func(who string, err error, outage bool) {
		t.Helper()
		if err == nil || errors.Is(err, store.ErrBusy) || sqlexec.SQLState(err) != "57014" ||
			!strings.Contains(err.Error(), "statement_timeout") || !outage {
			t.Errorf("%s: %v", who, err)
		}
	}
	_, err = s.Begin(t.Context(), in)
	named("pgx", err, s.Outage(err))
	other := NewSQL(db, &Options{Schema: b.schema})
	_, err = other.Begin(t.Context(), in)
	named("database/sql", err, other.Outage(err))
	if _, err := holds.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	u, err := s.Begin(t.Context(), in)
	if err != nil || u.Found().Marks[0].Outcome != store.Fresh {
		t.Fatalf("%v", err)
	}
	if err := u.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, b, "SELECT count(*) FROM {skald_mark}"); n != 1 {
		t.Errorf("%d marks", n)
	}
}
