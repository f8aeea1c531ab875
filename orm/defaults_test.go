package orm

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// Where transactions only read unless told otherwise, lib/pq tells all of them, the caller's too.
func TestReadOnlyDefaultPQ(t *testing.T) {
	b := newBed(t)
	b.url += "&default_transaction_read_only=on"
	db := b.open(t, "postgres")
	var on string
	if err := db.QueryRow("SHOW default_transaction_read_only").Scan(&on); err != nil || on != "on" {
		t.Fatalf("the default is %q: %v", on, err)
	}
	everyPath(t, pgstore.NewSQL(db, nil))
}

// everyPath does all that stations do with a store.
func everyPath(t *testing.T, d *pgstore.SQLStore) {
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
	begin := func() (store.Unit[*sql.Tx], store.Effect) {
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
	stood, err := u.Rollback(ctx, e)
	must("roll back with something instead", err)
	u, _ = begin()
	_, err = u.Rollback(ctx)
	must("roll back", err)
	ok, err := d.Apply(ctx, e)
	must("apply", err)
	if !stood[0] || ok[0] {
		t.Errorf("instead stood: %v, the same again stood: %v", stood, ok)
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
	partition := held.Shards[slices.IndexFunc(held.Shards,
		func(l store.Shard) bool { return l.First <= page.Rows[0].Bucket && page.Rows[0].Bucket <= l.Last })]
	ok, err = d.Apply(ctx, store.Effect{Shard: &store.Progress{Shard: partition.ID, Epoch: partition.Epoch,
		Token:  partition.Token,
		Cursor: &store.Cursor{Base: tip}, Deferred: []store.DeferredRow{{Row: page.Rows[0], Attempts: 1,
			Why: "no"}}}})
	must("progress", err)
	keys, err := store.DeferredKeys(ctx, d, []int{partition.ID})
	must("held", err)
	aside, err := store.DueRows(ctx, d, []int{partition.ID}, 10)
	must("retry", err)
	if !ok[0] || len(keys) != 1 || len(aside) != 1 {
		t.Errorf("progress stood: %v; %d keys held, %d rows aside", ok, len(keys), len(aside))
	}
	_, err = d.Maintain(ctx, store.Maintain{})
	must("maintain", err)
	_, err = store.ReadBacklog(ctx, d)
	must("backlog", err)
	_, err = d.Recover(ctx, nil)
	must("look what moved", err)
}
