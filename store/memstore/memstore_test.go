package memstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/storetest"
)

func TestConformance(t *testing.T) { storetest.Run(t, storetest.Memory()) }

func TestLines(t *testing.T) { storetest.Lines(t, storetest.Memory()) }

func TestDifferential(t *testing.T) { storetest.Differential(t, storetest.Memory()) }

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func intake(wait time.Duration) store.Intake {
	return store.Intake{
		Wait: wait,
		Marks: []store.Mark{{Consumer: "c", Identity: store.Identity{Source: "/s", ID: "1"},
			Outcome: store.Done}},
		Locks: []store.Lock{{Space: "order", Key: "a"}},
	}
}

func TestKill(t *testing.T) {
	db := memstore.New(nil)
	p := db.Session()
	u, err := p.Begin(t.Context(), intake(0))
	ok(t, err)
	ok(t, u.Tx().Put("k", "v"))
	own := p.BeginTx()
	ok(t, own.Put("own", "v"))
	ok(t, p.Write(t.Context(), own, store.Effect{Rows: []skald.Message{{ID: "1", Topic: "t", Type: "t"}}}))
	p.Kill()

	if err := u.Commit(t.Context()); !errors.Is(err, memstore.ErrKilled) {
		t.Errorf("the commit of the dead answers %v", err)
	}
	if err := own.Commit(); !errors.Is(err, memstore.ErrKilled) {
		t.Errorf("the caller's commit answers %v", err)
	}
	if _, err := p.Apply(t.Context(), store.Effect{}); !errors.Is(err, memstore.ErrKilled) || !p.Outage(err) {
		t.Errorf("the dead answer %v", err)
	}
	if err := p.BeginTx().Put("k", "v"); !errors.Is(err, memstore.ErrKilled) {
		t.Errorf("the dead write: %v", err)
	}
	if n := len(db.User()) + len(db.Rows()) + len(db.Marks()) + p.Open(); n != 0 {
		t.Errorf("%d things are left of the dead", n)
	}
	next, err := db.Session().Begin(t.Context(), intake(time.Millisecond))
	ok(t, err)
	if f := next.Found(); f.Marks[0].Outcome != store.Fresh || f.Locks[0] != 1 {
		t.Errorf("the next life finds %+v", f)
	}
	ok(t, next.Commit(t.Context()))
}

// TestKillWaiting checks that Kill ends a wait of the killed handle, and that the handles that wait for it
// continue.
func TestKillWaiting(t *testing.T) {
	db := memstore.New(nil)
	holder, waiter, last := db.Session(), db.Session(), db.Session()
	_, err := holder.Begin(t.Context(), intake(0))
	ok(t, err)
	waits, goesOn := make(chan error), make(chan error)
	go func() {
		_, err := waiter.Begin(t.Context(), intake(time.Hour))
		waits <- err
	}()
	for waiter.Open() == 0 {
		<-time.After(time.Millisecond)
	}
	waiter.Kill()
	if err := <-waits; !errors.Is(err, memstore.ErrKilled) {
		t.Errorf("the waiting dead answers %v", err)
	}
	go func() {
		u, err := last.Begin(t.Context(), intake(time.Hour))
		if err == nil {
			err = u.Commit(t.Context())
		}
		goesOn <- err
	}()
	holder.Kill()
	ok(t, <-goesOn)
	if n := len(db.Marks()); n != 1 {
		t.Errorf("there are %d marks", n)
	}
}

func TestDeadlock(t *testing.T) {
	db := memstore.New(nil)
	in := store.Intake{Wait: time.Hour}
	a, err := db.Begin(t.Context(), in)
	ok(t, err)
	b, err := db.Begin(t.Context(), in)
	ok(t, err)
	ok(t, a.Tx().Put("1", "a"))
	ok(t, b.Tx().Put("2", "b"))
	done := make(chan error, 2)
	end := func(u store.Unit[*memstore.Tx], key string) {
		err := u.Tx().Put(key, "x")
		if err != nil {
			if !db.Outage(err) {
				t.Errorf("a deadlock is no outage: %v", err)
			}
			if !errors.Is(u.Commit(t.Context()), memstore.ErrAborted) {
				t.Error("the loser of a deadlock commits")
			}
		} else {
			ok(t, u.Commit(t.Context()))
		}
		done <- err
	}
	go end(a, "2")
	go end(b, "1")
	one, two := <-done, <-done
	if lost := errors.Join(one, two); !errors.Is(lost, store.ErrBusy) || one != nil && two != nil {
		t.Errorf("of two in a circle one is let go: %v, %v", one, two)
	}
}

func TestTable(t *testing.T) {
	db := memstore.New(nil)
	tx := db.BeginTx()
	ok(t, tx.Insert("a/1", "x"))
	ok(t, tx.Put("a/2", "y"))
	ok(t, tx.Put("b", "z"))
	ok(t, tx.Commit())
	if err := tx.Commit(); !errors.Is(err, memstore.ErrEnded) {
		t.Errorf("a second commit answers %v", err)
	}
	tx = db.BeginTx()
	ok(t, tx.Delete("a/1"))
	ok(t, tx.Update("a/2", func(old string, there bool) string { return old + "!" }))
	ok(t, tx.Put("a/3", ""))
	if v, there := tx.Get("a/1"); there || v != "" {
		t.Errorf("what was deleted is %q", v)
	}
	if keys := tx.Keys("a/"); len(keys) != 2 || keys[0] != "a/2" || keys[1] != "a/3" {
		t.Errorf("the keys are %v", keys)
	}
	if v := db.User()["a/1"]; v != "x" {
		t.Errorf("others see %q before the commit", v)
	}
	ok(t, tx.Commit())
	if u := db.User(); len(u) != 3 || u["a/2"] != "y!" {
		t.Errorf("the table is %v", u)
	}
	tx = db.BeginTx()
	if err := tx.Insert("b", "again"); !errors.Is(err, memstore.ErrExists) {
		t.Errorf("a second insert answers %v", err)
	}
	if err := tx.Put("c", "v"); !errors.Is(err, memstore.ErrAborted) {
		t.Errorf("an aborted transaction answers %v", err)
	}
	if err := tx.Commit(); !errors.Is(err, memstore.ErrAborted) {
		t.Errorf("the commit of an aborted transaction answers %v", err)
	}
	if err := db.Write(t.Context(), memstore.New(nil).BeginTx(), store.Effect{}); err == nil {
		t.Error("a transaction of another database is taken")
	}
}

func TestShards(t *testing.T) {
	for n, want := range map[int]int{0: 16, 1: 1, 3: 3, 1024: 1024, 5000: 1024} {
		next := 0
		ls := memstore.New(&memstore.Options{Shards: n}).Shards()
		for _, l := range ls {
			if l.First != next || l.Last < l.First {
				t.Errorf("of %d shards one is %d to %d", n, l.First, l.Last)
			}
			next = l.Last + 1
		}
		if len(ls) != want || next != store.Buckets {
			t.Errorf("%d shards are %d, up to %d", n, len(ls), next)
		}
	}
}

// TestMarkAhead checks that the retention of a mark counts from its arrival, or from the time in its ID if
// that is later. A time in an ID more than 7 days ahead is ignored.
func TestMarkAhead(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	db := memstore.New(&memstore.Options{Now: func() time.Time { return now }})
	for _, ahead := range []time.Duration{0, 59 * time.Minute, 6 * 24 * time.Hour, 8 * 24 * time.Hour} {
		m := store.Mark{Consumer: "c", Identity: store.Identity{ID: uuid7.New(now.Add(ahead))},
			Outcome: store.Done}
		_, err := db.Apply(t.Context(), store.Effect{Mark: &m})
		ok(t, err)
	}
	now = now.Add(-time.Hour)
	_, err := db.Maintain(t.Context(), store.Maintain{}) // meets the consumer
	ok(t, err)
	now = now.Add(time.Hour)
	for _, step := range []struct {
		pass time.Duration
		left int
	}{{30 * 24 * time.Hour, 4}, {time.Minute, 2}, {time.Hour, 1}, {6 * 24 * time.Hour, 0}} {
		now = now.Add(step.pass)
		_, err := db.Maintain(t.Context(), store.Maintain{})
		ok(t, err)
		if n := len(db.Marks()); n != step.left {
			t.Errorf("%v later %d marks are left, want %d", step.pass, n, step.left)
		}
	}
}
