package pgstore

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/skald-go/skald/store"
)

// laneOne is the state of lane 0 and of what is set aside.
type laneOne struct {
	Owner, Token string
	Epoch        int64
	Cursor       store.Cursor
	Aside        map[int64]int // attempts by sequence number
}

func (b *bed) laneOne(t testing.TB) (l laneOne) {
	t.Helper()
	err := b.pool.QueryRow(context.Background(), b.q(`SELECT owner, token, epoch, base, tip, seq FROM {skald_lane} WHERE id = 0`)).
		Scan(&l.Owner, &l.Token, &l.Epoch, &l.Cursor.Base, &l.Cursor.Tip, &l.Cursor.Seq)
	if err != nil {
		t.Fatal(err)
	}
	l.Aside = map[int64]int{}
	rows, err := b.pool.Query(context.Background(), b.q(`SELECT seq, attempts FROM {skald_aside}`))
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

// takeovers plays, in every order of their statements, the write of an owner that was paused for longer than its
// lease against the takeover of its lane. Either the write stands, and the new owner starts from it; or nothing of
// it stands. many is whether the progress goes the way of many lanes at once.
func takeovers(t *testing.T, b *bed, spoil func(*Store), many bool) error {
	ctx := context.Background()
	texts := []string{"KeepProgress", "skald_lane", "skald_aside", "FOR UPDATE"}
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
		before := b.setLanes(t)
		cursor := store.Cursor{Base: "", Tip: "", Seq: 7}
		es := []store.Effect{{Lane: &store.Progress{Lane: 0, Epoch: 5, Token: "t5", Cursor: &cursor}}}
		if many {
			es = append(es, store.Effect{Lane: &store.Progress{Lane: 1, Epoch: 5, Token: "t5", Cursor: &cursor}})
		} else {
			es[0].Lane.Aside, es[0].Lane.Freed = []store.Aside{b.aside(1, 2), b.aside(2, 1)}, []int64{3}
		}
		var stood []bool
		var got store.Leased
		var held []store.Held
		one := act("paused "+b.name(), func(a *actor) (err error) {
			ra.actor = a
			stood, err = paused.Apply(ctx, es...)
			return err
		})
		two := act("taker "+b.name(), func(a *actor) (err error) {
			rb.actor = a
			if got, err = taker.Lease(ctx, store.Ask{Owner: "b", Life: "b1"}); err == nil {
				held, err = taker.Held(ctx, []int{0})
			}
			return err
		})
		if err := play(ctx, b.pool, merge, one, two, nil); err != nil {
			return fmt.Errorf("%s: %w", written(merge), err)
		}
		want := before
		want.Owner, want.Epoch = "b", 6
		if stood[0] {
			want.Cursor = cursor
			if !many {
				want.Aside = map[int64]int{1: 2, 2: 1}
			}
		} else {
			stale++
		}
		is := b.laneOne(t)
		if len(got.Lanes) == 0 || got.Lanes[0].ID != 0 {
			return fmt.Errorf("%s: the taker has %+v", written(merge), got)
		}
		want.Token = got.Lanes[0].Token
		switch {
		case !reflect.DeepEqual(is, want):
			return fmt.Errorf("%s: stood %v, and the lane is %+v, want %+v", written(merge), stood, is, want)
		case got.Lanes[0].Cursor != is.Cursor:
			return fmt.Errorf("%s: the new owner starts at %+v, the lane is at %+v", written(merge), got.Lanes[0].Cursor, is.Cursor)
		case len(held) != len(is.Aside):
			return fmt.Errorf("%s: the new owner knows of %v, set aside is %v", written(merge), held, is.Aside)
		}
	}
	if stale == 0 {
		t.Error("the paused owner never lost")
	}
	return nil
}

// setLanes makes lane 0 (and 1) that of a relay whose lease is over, and the others that of one that lives.
func (b *bed) setLanes(t testing.TB) laneOne {
	t.Helper()
	b.exec(t, `DELETE FROM {skald_relay}`)
	b.exec(t, `INSERT INTO {skald_relay} VALUES ('a', 'a1', now() - interval '1 s'), ('x', 'x1', now() + interval '1 h')`)
	b.exec(t, `UPDATE {skald_lane} SET owner = CASE WHEN id < 2 THEN 'a' ELSE 'x' END, life = CASE WHEN id < 2 THEN 'a1' ELSE 'x1' END,
		epoch = 5, token = 't5', base = '', tip = '', seq = 0`)
	b.exec(t, `DELETE FROM {skald_aside}`)
	for _, seq := range []int64{1, 3} {
		a := b.aside(seq, 1)
		if err := b.pool.QueryRow(context.Background(), b.q(`INSERT INTO {skald_aside} (seq, bucket, id, source, topic, key, type, content_type, time, attempts, why, due)
			VALUES ($1, 0, $2, '/s', $3, $4, $5, 'application/json', now(), 1, '', now()) RETURNING seq`), seq, a.ID, a.Topic, a.Key, a.Type).Scan(&seq); err != nil {
			t.Fatal(err)
		}
	}
	return b.laneOne(t)
}

func (b *bed) aside(seq int64, attempts int) store.Aside {
	return store.Aside{Row: store.Row{Seq: seq, Message: aMessage(fmt.Sprint("k", seq))}, Attempts: attempts}
}

// Interleaving 2.
func TestTakeoverAgainstPausedOwner(t *testing.T) {
	b := newBed(t)
	if err := takeovers(t, b, nil, false); err != nil {
		t.Error(err)
	}
	if err := takeovers(t, b, nil, true); err != nil {
		t.Errorf("many lanes at once: %v", err)
	}
}
