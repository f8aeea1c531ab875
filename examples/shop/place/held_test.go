package place_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/flow"
	"github.com/skald-go/skald/status"
	"github.com/skald-go/skald/store"
)

const (
	sickSQLite   = `CREATE TRIGGER sick BEFORE INSERT ON reservations BEGIN SELECT RAISE(ABORT, 'the shelf fell'); END`
	wellSQLite   = `DROP TRIGGER sick`
	sickPostgres = `ALTER TABLE /*schema*/reservations ADD CONSTRAINT shelf_fell CHECK (false) NOT VALID`
	wellPostgres = `ALTER TABLE /*schema*/reservations DROP CONSTRAINT shelf_fell`
)

// The status of an order names the message that holds it, parked or dead, and the command that frees it;
// freed, it goes on.
func TestStatusNamesWhatBlocksAnOrder(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"parked", "dead"} {
		t.Run("sqlite/"+state, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "the shop")
			flags := "--store 'sqlite:" + filepath.Join(folder, "inventory.db") + "'"
			heldAndFreed(t, place.SQLite(folder), state, flags, sickSQLite, wellSQLite)
		})
		t.Run("postgres/"+state, func(t *testing.T) {
			shop, err := place.Postgres(database(t), "shop")
			if err != nil {
				t.Fatal(err)
			}
			heldAndFreed(t, shop, state, `--store "$SKALD_STORE" --schema shop_inventory`, sickPostgres,
				wellPostgres)
		})
	}
}

func heldAndFreed[TTx any](t *testing.T, d *place.Databases[TTx], state, flags, sick, well string) {
	o := &service.Options{}
	o.Inbox.Retry.InitialInterval, o.Inbox.Retry.MaxInterval = time.Hour, time.Hour
	if state == "dead" {
		o.Inbox.Retry.Attempts = 1
	}
	s := openWith(t, d, o, service.Names()...)
	home, err := d.Home(t.Context(), "inventory")
	if err == nil {
		err = home.Make(t.Context(), sick)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.order(1, 1)
	id := onlyOrder(t, d)
	if now, text := s.status(id); len(now.Held) > 0 {
		t.Errorf("held before anything failed: %s", text)
	}
	s.stepUntilHeld(id, 1)
	s.stepUntilQuiet()
	now, text := s.status(id)
	h := now.Held[0]
	if now.State != order.Paid || h.Service != "inventory" || h.Consumer != "inventory" || h.State != state ||
		h.Type != event.PaymentTaken ||
		h.Attempts != 1 || !strings.Contains(h.LastError, "fell") {
		t.Errorf("the status is %s", text)
	}
	kept, err := store.ListParked(t.Context(), home.Store, store.ParkedQuery{Key: []byte(id), Limit: 10})
	if err != nil || len(kept) != 1 || kept[0].ID != h.ID {
		t.Fatalf("kept are %+v, %v", kept, err)
	}
	p := kept[0]
	const reason = " --reason 'the cause is gone'"
	want := "skald parked release " + flags + " --consumer inventory --key " + id + reason
	if state == "dead" {
		want = "skald dead redrive " + flags + " --consumer inventory --source " + p.Source + reason +
			" -- " + p.ID
	}
	if h.Command != want || (h.DueSeconds > 60) != (state == "parked") ||
		(h.Fingerprint != "" && h.Kind == "attempts") != (state == "dead") {
		t.Errorf("the status is %s\nwant the command %s", text, want)
	}
	if err := home.Make(t.Context(), well); err != nil {
		t.Fatal(err)
	}
	if _, err := home.Store.Apply(t.Context(),
		store.Effect{Requeue: &store.Requeue{Consumer: p.Consumer, Identity: p.Identity}}); err != nil {
		t.Fatal(err)
	}
	s.stepUntilHeld(id, 0)
	s.stepUntilQuiet()
	if now, text := s.status(id); now.State != order.Confirmed || len(now.Held) > 0 || len(now.Sagas) != 1 ||
		now.Sagas[0].State != flow.Done {
		t.Errorf("freed, the status is %s", text)
	}
}

// A service whose database gives no answer is named, and the rest of the status stands. Order in a
// process of its own asks nobody else.
func TestStatusWithAnUnavailableService(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	d, alone := place.SQLite(folder), place.SQLite(folder)
	s := openWith(t, d, &service.Options{}, service.Names()...)
	s.order(1, 1)
	home, err := d.Home(t.Context(), "payment")
	if err == nil {
		err = home.Make(t.Context(), "ALTER TABLE skald_parked RENAME TO gone")
	}
	if err != nil {
		t.Fatal(err)
	}
	now, text := s.status(onlyOrder(t, d), "payment")
	if len(now.Silent) != 1 || now.Silent[0].Service != "payment" || now.State != order.Pending {
		t.Errorf("the status is %s", text)
	}
	if now, text := openWith(t, alone, &service.Options{Instance: "2"},
		"order").status(now.Key); now.State != order.Pending || len(now.Held)+len(now.Silent) > 0 {
		t.Errorf("alone, the status is %s", text)
	}
}

// What is on its way, or waits behind another message, holds no order; a rejection that is a dead letter only
// where it holds its key, and it is not to be redriven.
func TestStatusNamesOnlyWhatBlocks(t *testing.T) {
	t.Parallel()
	d := place.SQLite(t.TempDir())
	s := openWith(t, d, &service.Options{}, service.Names()...)
	s.order(1, 1)
	id := onlyOrder(t, d)
	keep := func(name, m, why string, dead *store.Death) {
		t.Helper()
		home, err := d.Home(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		who := store.Identity{Source: "/test", ID: m}
		stands, err := home.Store.Apply(t.Context(),
			store.Effect{Park: &store.Park{Parked: store.Parked{Consumer: name, Identity: who,
				Message: skald.Message{ID: m, Source: who.Source, Topic: "orders", Type: "order.placed",
					Key: []byte(id)},
				Due: time.Hour, Last: store.Failure{At: time.Now(), Why: why}, Dead: dead}}})
		if err != nil || !stands[0] {
			t.Fatalf("keep %s: %v, %v", m, stands, err)
		}
	}
	keep("payment", "called", "", nil)
	keep("payment", "behind it", "it failed before", nil)
	if now, text := s.status(id); len(now.Held) > 0 {
		t.Errorf("the status is %s", text)
	}
	keep("notification", "answered", "no", &store.Death{At: time.Now(), Kind: "rejected", Fingerprint: "abc"})
	if now, text := s.status(id); len(now.Held) > 0 {
		t.Errorf("a rejection that holds nothing: the status is %s", text)
	}
	keep("analytics", "it's no", "no", &store.Death{At: time.Now(), Kind: "rejected", Fingerprint: "abc",
		BlocksKey: true})
	now, text := s.status(id)
	if len(now.Held) != 1 || !strings.HasPrefix(now.Held[0].Command, "skald dead drop --store ") ||
		!strings.HasSuffix(now.Held[0].Command,
			` --consumer analytics --source /test --reason 'the rejection is final' -- 'it'\''s no'`) {
		t.Errorf("the status is %s", text)
	}
}

// openWith is a shop of one instance of each of these services, with o.
func openWith(t *testing.T, d place.Shop, o *service.Options, names ...string) *shop {
	t.Helper()
	bus, err := place.OpenBus("mem:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(bus.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	s := &shop{t: t, place: d}
	for _, name := range names {
		s.addWith(name, name, bus, o)
	}
	return s
}

func onlyOrder[TTx any](t *testing.T, d *place.Databases[TTx]) (id string) {
	t.Helper()
	home, err := d.Home(t.Context(), "order")
	if err == nil {
		err = table.All(t.Context(), home.Read, "SELECT id FROM /*schema*/orders", nil,
			func(r table.Row) error { return r.Scan(&id) })
	}
	if err != nil || id == "" {
		t.Fatalf("the order is %q, %v", id, err)
	}
	return id
}

// stand is where an order stands: by its own state, and by its status.
type stand struct {
	order.Summary
	status.Answer
}

// status is that of an order, once each service has answered but those that are away: a slow machine keeps
// some from it at first.
func (s *shop) status(id string, away ...string) (out stand, text string) {
	s.t.Helper()
	ask := func(path string, into any) string {
		s.t.Helper()
		w := httptest.NewRecorder()
		s.orders.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/orders/"+id+path, nil))
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			s.t.Fatalf("%s: %d, %v: %s", path, w.Code, err, w.Body)
		}
		return w.Body.String()
	}
	for deadline := time.Now().Add(most); ; {
		out = stand{}
		ask("", &out.Summary)
		text = ask("/status", &out.Answer)
		if !slices.ContainsFunc(out.Silent,
			func(s status.Silent) bool { return !slices.Contains(away, s.Service) }) {
			return out, text
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("a service does not answer: %s", text)
		}
	}
}

// stepUntilHeld lets the services work until n messages hold the order.
func (s *shop) stepUntilHeld(id string, n int) {
	s.t.Helper()
	ctx, stop := context.WithTimeout(s.t.Context(), most)
	defer stop()
	for now, text := s.status(id); len(now.Held) != n; now, text = s.status(id) {
		for _, one := range s.steppers {
			if _, err := one.Step(ctx); err != nil {
				s.t.Fatalf("%v; the status is %s", err, text)
			}
		}
	}
}
