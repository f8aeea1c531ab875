package sagatest_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/gateway"
	shop "github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/sample"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/sagatest"
)

// realShop is the shop of the examples: six services in six processes, on any databases.
type realShop[TTx any] struct {
	w    *sagatest.World
	dbs  *place.Databases[TTx]
	bus  *membroker.Broker
	wrap func(broker.Broker) broker.Broker
	sent int
	ids  int

	placed []string // orders, by their request numbers
}

// buildShop returns a shop on the databases of open; wrap wraps each service's broker.
func buildShop[TTx any](open func(w *sagatest.World) (*place.Databases[TTx], error),
	wrap func(broker.Broker) broker.Broker) func(w *sagatest.World) error {
	return func(w *sagatest.World) error {
		dbs, err := open(w)
		if err != nil {
			return err
		}
		s := &realShop[TTx]{w: w, dbs: dbs, bus: membroker.New(nil), wrap: wrap}
		if err := s.bus.MakeTopics(context.Background(), 2, event.New("").Topics()...); err != nil {
			return err
		}
		for _, name := range service.Names() {
			w.Process(name, func(p *sagatest.Process) error { return s.start(p, name) })
		}
		w.Finally("audit", s.audit)
		return nil
	}
}

func (s *realShop[TTx]) start(p *sagatest.Process, name string) error {
	home, err := s.dbs.Home(context.Background(), name)
	if err != nil {
		return err
	}
	o := &service.Options{}
	if name == "payment" {
		l, err := gateway.NewLedger(home, &gateway.Options{Funds: sample.Accounts(), Now: s.w.Now,
			NewID: s.newID})
		if err != nil {
			return err
		}
		if err := l.Prepare(context.Background()); err != nil {
			return err
		}
		o.Gateway = &crashGateway{l, p}
	}
	home.Store = &impatient[TTx]{sagatest.CrashDriver(p, home.Store)}
	quiet := slog.New(slog.DiscardHandler)
	bus := sagatest.CrashBroker(p, s.bus.Client())
	if s.wrap != nil {
		bus = s.wrap(bus)
	}
	*o = service.Options{
		Gateway: o.Gateway,
		Outbox:  outbox.Options{Now: s.w.Now, NewID: s.w.NewID},
		Inbox: inbox.Options{Now: s.w.Now, NewID: s.w.NewID, Logger: quiet,
			Retry: inbox.Retry{InitialInterval: time.Microsecond, MaxInterval: time.Millisecond}},
		Relay: relay.Options{Now: s.w.Now, Logger: quiet, RetryFirst: time.Microsecond,
			RetryMost: time.Millisecond},
		Now:   s.w.Now,
		NewID: s.newID,
	}
	svc, err := service.New(name, home, bus, o)
	if err != nil {
		return err
	}
	if h := svc.HTTP(); h != nil {
		p.Step(&buyer[TTx]{s, p, h})
	}
	p.Step(svc.Steppers()...)
	return nil
}

func (s *realShop[TTx]) newID() string {
	s.ids++
	return fmt.Sprintf("id%024d", s.ids)
}

// requests have one order for each result: confirmed, declined, undone for lack of goods, undone because it
// cannot be shipped, and cancelled.
func requests() []shop.Request {
	of := func(customer string, skus ...string) (r shop.Request) {
		r.Customer = customer
		for _, sku := range skus {
			r.Items = append(r.Items, shop.Line{SKU: sku, Quantity: 2})
		}
		return r
	}
	return []shop.Request{of("ada", "tea", "mug"), of(sample.Poor, "tea"), of("bob", "tea", sample.Sold),
		of("eve", "honey", sample.Heavy), of("bob", "jam")}
}

// next returns the buyer's next request: the orders, and for the last one a new address and a cancellation.
func (b *buyer[TTx]) next() (method, path string, body []byte, err error) {
	all := requests()
	switch n := b.s.sent; {
	case n < len(all):
		body, err = json.Marshal(all[n])
		return "POST", "/orders", body, err
	case n == len(all):
		return "PUT", "/orders/" + b.s.placed[len(all)-1] + "/address", []byte(`{"address":"elsewhere"}`), nil
	case n == len(all)+1:
		return "POST", "/orders/" + b.s.placed[len(all)-1] + "/cancel", nil, nil
	}
	return "", "", nil, nil
}

// buyer repeats each request, with the same Idempotency-Key, until it gets an answer.
type buyer[TTx any] struct {
	s      *realShop[TTx]
	p      *sagatest.Process
	orders http.Handler
}

func (b *buyer[TTx]) Step(context.Context) (bool, error) {
	method, path, body, err := b.next()
	if method == "" || err != nil {
		return false, err
	}
	key := fmt.Sprint("key-", b.s.sent)
	err = b.p.IO(method+" "+key, func() error {
		r, w := httptest.NewRequest(method, path, bytes.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Idempotency-Key", key)
		b.orders.ServeHTTP(w, r)
		if w.Code >= 300 && w.Code != http.StatusConflict { // too late is a valid answer
			return fmt.Errorf("%d: %s", w.Code, w.Body)
		}
		if b.s.sent < len(requests()) && b.s.sent == len(b.s.placed) {
			var o shop.Summary
			b.s.placed = append(b.s.placed, "")
			defer func() { b.s.placed[len(b.s.placed)-1] = o.ID }()
			return json.Unmarshal(w.Body.Bytes(), &o)
		}
		return nil
	})
	if err == nil {
		b.s.sent++
	}
	return true, nil
}

func (s *realShop[TTx]) audit() error {
	read, err := s.dbs.Read(context.Background())
	if err != nil {
		return err
	}
	found, err := audit.Run(context.Background(), read)
	if err != nil {
		return err
	}
	for _, i := range found {
		if !i.OK || i.Checked == 0 {
			err = errors.Join(err, fmt.Errorf("%s: %s (checked %d)", i.Name, i.Detail, i.Checked))
		}
	}
	return err
}

// template is a folder with the shop's empty databases. Each world gets a copy.
func template(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	dbs := place.SQLite(folder)
	prepareAll(t, dbs)
	return folder
}

func prepareAll[TTx any](t *testing.T, dbs *place.Databases[TTx]) {
	t.Helper()
	bus := membroker.New(nil)
	for _, name := range service.Names() {
		if err := dbs.Prepare(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if _, err := dbs.Service(t.Context(), name, bus, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := dbs.Close(); err != nil {
		t.Fatal(err)
	}
}

// scratch returns a folder for worlds, in memory if possible, because each run writes files and deletes
// them.
func scratch(t *testing.T) string {
	t.Helper()
	if dir, err := os.MkdirTemp("/dev/shm", "skald"); err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
	return t.TempDir()
}

func openSQLite(t *testing.T) func(w *sagatest.World) (*place.Databases[*sql.Tx], error) {
	t.Helper()
	from, within := template(t), scratch(t)
	return func(w *sagatest.World) (*place.Databases[*sql.Tx], error) {
		folder, err := os.MkdirTemp(within, "world")
		if err != nil {
			return nil, err
		}
		for _, name := range service.Names() {
			file, err := os.ReadFile(filepath.Join(from, name+".db"))
			if err == nil {
				err = os.WriteFile(filepath.Join(folder, name+".db"), file, 0o600)
			}
			if err != nil {
				return nil, err
			}
		}
		dbs := place.SQLite(folder)
		w.Cleanup(func() { _ = errors.Join(dbs.Close(), os.RemoveAll(folder)) })
		return dbs, nil
	}
}

// TestExploreShopOnSQLite injects each single fault into the shop on SQLite; a sample of them unless
// need.All is set.
func TestExploreShopOnSQLite(t *testing.T) {
	sagatest.Explore(t, buildShop(openSQLite(t), nil), &sagatest.Options{
		Modes: []sagatest.Mode{sagatest.CrashBefore, sagatest.CrashAfter, sagatest.ErrorAfter,
			sagatest.PartFirst, sagatest.PartLast},
		Sample: sampleOfReal(30, 300), Failures: 3, Rest: time.Second,
	})
}

// sampleOfReal limits explorations on real databases: few schedules in a sample, full in a full run, no
// limit (0) with need.All.
func sampleOfReal(few, full int) int {
	switch {
	case need.All():
		return 0
	case need.Full():
		return full
	case raceDetector: // SQLite is another ten times slower
		return max(2, few/3)
	}
	return few
}

// TestShopThatAcknowledgesFirstIsFoundOut: if a shop acknowledges before it commits, the explorer reaches
// the failure, and the auditor finds it.
func TestShopThatAcknowledgesFirstIsFoundOut(t *testing.T) {
	build := buildShop(openSQLite(t), sagatest.AckFirst)
	for _, sample := range []int{15, 100} { // each run is slow under the race detector
		r, err := sagatest.Search(t.Context(), build,
			&sagatest.Options{Modes: []sagatest.Mode{sagatest.CrashAfter}, Rest: time.Second, Sample: sample})
		if err != nil || len(r.Failures) > 0 && len(r.Failures[0].Schedule) == 0 {
			t.Fatalf("%v %v", r, err)
		}
		if len(r.Failures) > 0 {
			t.Logf("%s, in %d schedules: %s", r.Failures[0].Schedule, r.Schedules, r.Failures[0].Broken)
			return
		}
	}
	t.Error("nothing was found")
}
