package pgstore

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/skald-go/skald/store"
)

// shardOne is the state of shard 0 and of the deferred rows.
type shardOne struct {
	Owner, Token string
	Epoch        int64
	Cursor       store.Cursor
	Aside        map[int64]int // attempts by sequence number
}

func (b *bed) shardOne(t testing.TB) (l shardOne) {
	t.Helper()
	err := b.pool.QueryRow(context.Background(),
		b.q(`SELECT owner, token, epoch, base, tip, seq FROM {skald_shard} WHERE id = 0`)).
		Scan(&l.Owner, &l.Token, &l.Epoch, &l.Cursor.Base, &l.Cursor.Tip, &l.Cursor.Seq)
	if err != nil {
		t.Fatal(err)
	}
	l.Aside = map[int64]int{}
	rows, err := b.pool.Query(context.Background(), b.q(`SELECT seq, attempts FROM {skald_deferred}`))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		var attempts int
		if err := rows.Scan(&seq, &attempts); err != nil {
			t.Fatal(err)
		}
		l.Aside[seq] = attempts
	}
	return l
}

// takeovers runs the write of an owner that was paused for longer than its lease against the takeover of
// its shard, in every order of their statements. Either the write is stored and the new owner starts from
// it, or nothing of it is stored. many selects the statement for the progress of many shards.
func takeovers(t *testing.T, b *bed, spoil func(*Store), many bool) error {
	ctx := context.Background()
	texts := []string{"KeepProgress", "skald_shard", "skald_deferred", "FOR UPDATE"}
	paused, ra := b.stepStore(t, "paused "+b.name(), texts...)
	taker, rb := b.stepStore(t, "taker "+b.name(), texts...)
	if spoil != nil {
		spoil(paused)
	}
	n, stale := 4, 0
	if many {
		n = 2
	}
	for _, merge := range merges(n, 5) {
		before := b.setShards(t)
		cursor := store.Cursor{Base: "", Tip: "", Seq: 7}
		es := []store.Effect{{Shard: &store.Progress{Shard: 0, Epoch: 5, Token: "t5", Cursor: &cursor}}}
		if many {
			es = append(es, store.Effect{Shard: &store.Progress{Shard: 1, Epoch: 5, Token: "t5",
				Cursor: &cursor}})
		} else {
			es[0].Shard.Deferred, es[0].Shard.Freed = []store.DeferredRow{b.aside(1, 2), b.aside(2, 1)},
				[]int64{3}
		}
		var stored []bool
		var got store.Leased
		var held []store.DeferredKey
		one := act("paused "+b.name(), func(a *actor) (err error) {
			ra.actor = a
			stored, err = paused.Apply(ctx, es...)
			return err
		})
		two := act("taker "+b.name(), func(a *actor) (err error) {
			rb.actor = a
			if got, err = taker.Lease(ctx, store.LeaseRequest{Owner: "b", Session: "b1"}); err == nil {
				held, err = store.DeferredKeys(ctx, taker, []int{0})
			}
			return err
		})
		if err := play(ctx, b.pool, merge, one, two, nil); err != nil {
			return fmt.Errorf("%s: %w", written(merge), err)
		}
		want := before
		want.Owner, want.Epoch = "b", 6
		if stored[0] {
			want.Cursor = cursor
			if !many {
				want.Aside = map[int64]int{1: 2, 2: 1}
			}
		} else {
			stale++
		}
		is := b.shardOne(t)
		if len(got.Shards) == 0 || got.Shards[0].ID != 0 {
			return fmt.Errorf("%s: the taker has %+v", written(merge), got)
		}
		want.Token = got.Shards[0].Token
		switch {
		case !reflect.DeepEqual(is, want):
			return fmt.Errorf("%s: stored %v, and the shard is %+v, want %+v", written(merge), stored, is,
				want)
		case got.Shards[0].Cursor != is.Cursor:
			return fmt.Errorf("%s: the new owner starts at %+v, the shard is at %+v", written(merge),
				got.Shards[0].Cursor, is.Cursor)
		case len(held) != len(is.Aside):
			return fmt.Errorf("%s: the new owner read the deferred rows %v, want %v", written(merge),
				held, is.Aside)
		}
	}
	if stale == 0 {
		t.Error("the paused owner never lost")
	}
	return nil
}

// setShards gives shard 0 (and 1) to a relay whose lease is over, and the others to a live one.
func (b *bed) setShards(t testing.TB) shardOne {
	t.Helper()
	b.exec(t, `DELETE FROM {skald_relay}`)
	b.exec(t,
		`INSERT INTO {skald_relay} VALUES ('a', 'a1', now() - interval '1 s'), ('x', 'x1', now() + interval '1 h')`)
	b.exec(t,
		`UPDATE {skald_shard} SET owner = CASE WHEN id < 2 THEN 'a' ELSE 'x' END, session = CASE WHEN id < 2 THEN 'a1' ELSE 'x1' END,
		epoch = 5, token = 't5', base = '', tip = '', seq = 0`)
	b.exec(t, `DELETE FROM {skald_deferred}`)
	for _, seq := range []int64{1, 3} {
		a := b.aside(seq, 1)
		if err := b.pool.QueryRow(context.Background(),
			b.q(`INSERT INTO {skald_deferred} (seq, bucket, id, source, topic, key, type, content_type, time, attempts, reason, due)
			VALUES ($1, 0, $2, '/s', $3, $4, $5, 'application/json', now(), 1, '', now()) RETURNING seq`), seq, a.ID, a.Topic, a.Key, a.Type).Scan(&seq); err != nil {
			t.Fatal(err)
		}
	}
	return b.shardOne(t)
}

func (b *bed) aside(seq int64, attempts int) store.DeferredRow {
	return store.DeferredRow{Row: store.Row{Seq: seq, Message: aMessage(fmt.Sprint("k", seq))},
		Attempts: attempts}
}

// TestTakeoverAgainstPausedOwner runs a paused owner's write against a takeover in every order of their
// statements.
// Interleaving 2.
func TestTakeoverAgainstPausedOwner(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if err := takeovers(t, b, nil, false); err != nil {
		t.Error(err)
	}
	if err := takeovers(t, b, nil, true); err != nil {
		t.Errorf("many shards at once: %v", err)
	}
}
