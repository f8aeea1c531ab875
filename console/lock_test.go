package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/lock"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// The page shows the holder of an entity and its version. After the transaction has ended, the entity has
// no holder. Reserved keys are shown, too.
func TestLocks(t *testing.T) {
	db := memstore.New(nil)
	order := lock.Entity{Space: "order", Key: "<4711>"}
	if _, err := lock.Take(t.Context(), db, order); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Reserve(t.Context(), store.Reservation{Consumer: "http",
		Identity: store.Identity{Source: "/pay", ID: "<key>"}, Token: "t", Lease: time.Hour}); err != nil {
		t.Fatal(err)
	}
	tx := db.BeginTx()
	if _, err := lock.In(t.Context(), db, tx, order); err != nil {
		t.Fatal(err)
	}
	b := open(t, of(db), nil)
	page := b.page("/locks")
	for _, part := range []string{"order &lt;4711&gt;", "a transaction of this process", "/pay &lt;key&gt;",
		"Reserved keys of orders"} {
		if !strings.Contains(page, part) {
			t.Errorf("no %q: %s", part, page)
		}
	}
	type answer struct {
		Sources []struct {
			Told     bool
			Entities []struct {
				Space, Holder string
				Key           []byte
				Version       int64
			}
			Reserved []struct {
				Consumer, ID string
				Left         float64 `json:"left_seconds"`
			}
		}
	}
	var held, free answer
	b.get("/locks", &held)
	s := held.Sources[0]
	if !s.Told || len(s.Entities) != 1 || s.Entities[0].Holder == "" ||
		string(s.Entities[0].Key) != "<4711>" || s.Entities[0].Version != 1 ||
		len(s.Reserved) != 1 || s.Reserved[0].Left <= 0 {
		t.Errorf("%+v", held)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	b.get("/locks?space=order&key=%3C4711%3E&consumer=other", &free)
	if s := free.Sources[0]; len(s.Entities) != 1 || s.Entities[0].Holder != "" ||
		s.Entities[0].Version != 2 || len(s.Reserved) > 0 {
		t.Errorf("%+v", free)
	}
	if w := b.do(http.MethodGet, "/locks?space=order", nil); w.Code != http.StatusBadRequest {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// Sagas that hold entities are shown with the number of waiting sagas; for a given entity, the whole queue.
func TestHeldBySagas(t *testing.T) {
	db := memstore.New(nil)
	tx := db.BeginTx()
	for _, key := range []string{"<one>", "two"} {
		if _, err := db.HoldEntities(t.Context(), tx, store.EntityHold{Holder: key,
			Saga: store.SagaRef{Name: "order", Key: key}, Entities: []store.Lock{{Space: "account", Key: "<a>"}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	b := open(t, of(db), nil)
	page := b.page("/locks")
	for _, part := range []string{"account &lt;a&gt;", "order &lt;one&gt;", "hold or wait for"} {
		if !strings.Contains(page, part) {
			t.Errorf("no %q: %s", part, page)
		}
	}
	type answer struct {
		Sources []struct {
			Held []struct {
				Space, Saga     string
				SagaKey         string `json:"saga_key"`
				Key             []byte
				Since           time.Time
				Before, Waiting int
			}
		}
	}
	var all, line answer
	b.get("/locks", &all)
	if h := all.Sources[0].Held; len(h) != 1 || h[0].SagaKey != "<one>" || h[0].Saga != "order" ||
		h[0].Waiting != 1 || h[0].Space != "account" || string(h[0].Key) != "<a>" || h[0].Since.IsZero() {
		t.Errorf("%+v", all)
	}
	b.get("/locks?space=account&key=%3Ca%3E", &line)
	if h := line.Sources[0].Held; len(h) != 2 || h[1].SagaKey != "two" || h[1].Before != 1 {
		t.Errorf("%+v", line)
	}
}

// The outbox shows a limited number of its oldest rows, without payload.
func TestOldestRows(t *testing.T) {
	db := memstore.New(nil)
	said := outbox.New[*memstore.Tx](db, nil)
	tx := db.BeginTx()
	for i := range 30 {
		d := skald.Event[string]{Topic: "orders", Type: "order.<placed>"}.New(fmt.Sprint("k-", i), "a secret")
		if err := said.Write(t.Context(), tx, d); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	b := open(t, of(db), nil)
	var got struct {
		Sources []struct {
			Rows []struct {
				Topic string
				Key   []byte
				Age   float64 `json:"age_seconds"`
			}
		}
	}
	b.get("/outbox", &got)
	rows := got.Sources[0].Rows
	if len(rows) != 20 || string(rows[0].Key) != "k-0" || string(rows[19].Key) != "k-19" ||
		rows[0].Topic != "orders" || rows[0].Age < 0 {
		t.Errorf("%+v", rows)
	}
	if page := b.page("/outbox"); strings.Contains(page, "secret") ||
		!strings.Contains(page, "order.&lt;placed&gt;") || strings.Contains(page, "k-20") {
		t.Errorf("%s", page)
	}
}
