package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

type order struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

type loud struct{ skald.JSON }

func (loud) Encode(_ context.Context, m *skald.Message, v any) error {
	m.Data, m.ContentType = []byte(strings.ToUpper(fmt.Sprint(v))), "text/plain"
	return nil
}

func setup(t *testing.T, o *outbox.Options) (*memstore.Store, *outbox.Outbox[*memstore.Tx]) {
	t.Helper()
	db := memstore.New(&memstore.Options{Source: "/orders"})
	return db, outbox.New[*memstore.Tx](db, o)
}

func write(t *testing.T, db *memstore.Store, out *outbox.Outbox[*memstore.Tx], ds ...skald.Draft) {
	t.Helper()
	tx := db.BeginTx()
	if err := out.Write(t.Context(), tx, ds...); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func TestWriteFollowsTheTransaction(t *testing.T) {
	placed := skald.Event[order]{Topic: "orders", Type: "order.placed"}
	db, out := setup(t, nil)
	tx := db.BeginTx()
	if err := errors.Join(tx.Put("order/1", "placed"),
		out.Write(t.Context(), tx, placed.New("1", order{"1", 5}))); err != nil {
		t.Fatal(err)
	}
	if rows := db.Rows(); len(rows) != 0 {
		t.Errorf("before the commit the outbox shows %v", rows)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	rows := db.Rows()
	if len(rows) != 1 || db.User()["order/1"] != "placed" {
		t.Fatalf("after the commit: rows %v, order %q", rows, db.User()["order/1"])
	}
	r := rows[0]
	if r.Topic != "orders" || r.Type != "order.placed" || string(r.Key) != "1" || r.Source != "/orders" ||
		r.ContentType != "application/json" {
		t.Errorf("the row is %+v", r)
	}
	var got order
	if err := json.Unmarshal(r.Data, &got); err != nil || got != (order{"1", 5}) {
		t.Errorf("the payload is %s, %v", r.Data, err)
	}

	tx = db.BeginTx()
	if err := out.Write(t.Context(), tx, placed.New("2", order{})); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if rows := db.Rows(); len(rows) != 1 {
		t.Errorf("after a rollback there are %d rows, want 1", len(rows))
	}
}

func TestWriteKeepsOrder(t *testing.T) {
	e := skald.Event[int]{Topic: "t", Type: "n"}
	db, out := setup(t, nil)
	var ds []skald.Draft
	for n := range 20 {
		ds = append(ds, e.New("k", n))
	}
	tx := db.BeginTx()
	if err := errors.Join(out.Write(t.Context(), tx, ds[:7]...), out.Write(t.Context(), tx),
		out.Write(t.Context(), tx, ds[7:]...), tx.Commit()); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i, r := range db.Rows() {
		if string(r.Data) != fmt.Sprint(i) {
			t.Errorf("row %d has %s", i, r.Data)
		}
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	if len(slices.Compact(ids)) != 20 {
		t.Errorf("20 drafts have %d ids", len(slices.Compact(ids)))
	}
}

func TestOptions(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	db, out := setup(t, &outbox.Options{
		Codec: loud{},
		Now:   func() time.Time { return at },
		NewID: func(now time.Time) string { return "id of " + now.Format(time.RFC3339) },
	})
	write(t, db, out, skald.Event[string]{Topic: "t", Type: "a"}.New("", "hello"))
	r := db.Rows()[0]
	if string(r.Data) != "HELLO" || r.ContentType != "text/plain" || !r.Time.Equal(at) ||
		r.ID != "id of 2026-01-02T03:04:05Z" || r.Key != nil {
		t.Errorf("the row is %+v", r)
	}
}

// TestWriteRefuses checks that a draft that cannot be encoded, or exceeds a limit, prevents all drafts of its
// call.
func TestWriteRefuses(t *testing.T) {
	good := skald.Draft{Topic: "t", Type: "a", Value: 1}
	for name, bad := range map[string]skald.Draft{
		"no JSON":        {Topic: "t", Type: "b", Value: func() {}},
		"topic":          {Topic: "no topic", Type: "b"},
		"data too large": {Topic: "t", Type: "b", Value: strings.Repeat("x", 900<<10)},
		"key too long":   {Topic: "t", Type: "b", Key: make([]byte, 1025)},
	} {
		t.Run(name, func(t *testing.T) {
			db, out := setup(t, nil)
			tx := db.BeginTx()
			err := out.Write(t.Context(), tx, good, bad)
			if err == nil || !strings.HasPrefix(err.Error(), "write to outbox: ") {
				t.Errorf("Write = %v", err)
			}
			if limit := new(store.LimitError); errors.As(err, &limit) == (name == "no JSON") {
				t.Errorf("Write = %v: a LimitError only for limits", err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if rows := db.Rows(); len(rows) != 0 {
				t.Errorf("%d rows were written", len(rows))
			}
		})
	}
}

func TestWriteFailsWithTheStore(t *testing.T) {
	db, out := setup(t, nil)
	tx := db.BeginTx()
	db.Kill()
	if err := out.Write(t.Context(), tx, skald.Draft{Topic: "t", Type: "a"}); !errors.Is(err,
		memstore.ErrKilled) || !strings.HasPrefix(err.Error(), "write to outbox: ") {
		t.Errorf("Write = %v", err)
	}
}

// TestWriteInAHandler checks that in a handler messages name their cause and are committed with the mark.
func TestWriteInAHandler(t *testing.T) {
	cause := skald.Message{ID: "m-1", Source: "/shop", CorrelationID: "first", TraceParent: "00-aa-bb-01"}
	mark := store.Mark{Consumer: "payment", Identity: store.Identity{Source: "/shop", ID: "m-1"},
		Outcome: store.Done}
	for _, commit := range []bool{false, true} {
		db, out := setup(t, nil)
		u, err := db.Begin(t.Context(), store.Intake{Marks: []store.Mark{mark}})
		if err != nil {
			t.Fatal(err)
		}
		if err := out.Write(skald.WithCause(t.Context(), cause), u.Tx(), skald.Draft{Topic: "t", Type: "a"},
			skald.Draft{Topic: "t", Type: "b"}); err != nil {
			t.Fatal(err)
		}
		if rows := db.Rows(); len(rows) != 0 {
			t.Errorf("before the commit the outbox shows %v", rows)
		}
		if !commit {
			if _, err := u.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if rows, marks := db.Rows(), db.Marks(); len(rows) != 0 || len(marks) != 0 {
				t.Errorf("after a rollback: rows %v, marks %v", rows, marks)
			}
			continue
		}
		if err := u.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		rows := db.Rows()
		if len(rows) != 2 || len(db.Marks()) != 1 {
			t.Fatalf("after the commit: rows %v, marks %v", rows, db.Marks())
		}
		for i, r := range rows {
			if r.CorrelationID != "first" || r.CausationID != "m-1" || r.TraceParent != "00-aa-bb-01" ||
				r.Type != []string{"a", "b"}[i] {
				t.Errorf("row %d is %+v", i, r)
			}
		}
	}
}

func Example() {
	db := memstore.New(nil) // or a PostgreSQL or SQLite store
	out := outbox.New[*memstore.Tx](db, nil)
	placed := skald.Event[order]{Topic: "orders", Type: "order.placed"}

	tx := db.BeginTx()
	_ = tx.Put("order/7", "placed") // your own rows
	if err := out.Write(context.Background(), tx, placed.New("7", order{ID: "7", Amount: 120})); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("before the commit:", len(db.Rows()))
	_ = tx.Commit()
	for _, r := range db.Rows() {
		fmt.Printf("%s %s %s %s\n", r.Topic, r.Key, r.Type, r.Data)
	}
	// Output:
	// before the commit: 0
	// orders 7 order.placed {"id":"7","amount":120}
}
