package place_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/sample"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/internal/need"
)

// most is how long anything may take that a test waits for, on whatever machine.
const most = 5 * time.Minute

// database is a new database on the PostgreSQL server, for this test alone.
func database(t *testing.T) string {
	t.Helper()
	return databaseAt(t, need.Postgres(t))
}

func databaseAt(t *testing.T, server string) string {
	t.Helper()
	name := "shop_" + strings.ToLower(rand.Text()[:10])
	admin := func(ctx context.Context, sql string) {
		conn, err := pgx.Connect(ctx, server)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(ctx) }()
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	admin(t.Context(), "CREATE DATABASE "+name)
	t.Cleanup(func() { admin(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)") })
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// a shop of some instances of each service.
type shop struct {
	t        *testing.T
	place    place.Shop
	orders   http.Handler
	steppers []skald.Stepper
	runners  []skald.Runner
}

func open(t *testing.T, store, broker, prefix string, instances ...string) *shop {
	t.Helper()
	s := &shop{t: t}
	var err error
	if s.place, err = place.Open(store, prefix); err != nil {
		t.Fatal(err)
	}
	bus, err := place.OpenBus(broker)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bus.Close(); err != nil {
			t.Error(err)
		}
		if err := s.place.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, instance := range instances {
		for _, name := range service.Names() {
			s.add(name, instance, prefix, bus)
		}
	}
	return s
}

func (s *shop) add(name, instance, prefix string, bus *place.Bus) {
	s.t.Helper()
	s.addWith(name, name+instance, bus, &service.Options{Prefix: prefix, Instance: instance})
}

func (s *shop) addWith(name, as string, bus *place.Bus, o *service.Options) {
	s.t.Helper()
	ctx := s.t.Context()
	client, err := bus.Connect(as)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := place.MakeTopics(ctx, client, event.New(o.Prefix), 0); err != nil {
		s.t.Fatal(err)
	}
	if err := s.place.Prepare(ctx, name); err != nil {
		s.t.Fatal(err)
	}
	one, err := s.place.Service(ctx, name, client, o)
	if err != nil {
		s.t.Fatal(err)
	}
	if h := one.HTTP(); h != nil {
		s.orders = h
	}
	s.steppers = append(s.steppers, one.Steppers()...)
	s.runners = append(s.runners, one.Runners()...)
}

func (s *shop) order(seed uint64, n int) {
	s.t.Helper()
	for _, o := range sample.Orders(seed, n) {
		s.send(o)
	}
}

func (s *shop) send(o sample.Order) {
	s.t.Helper()
	body, err := json.Marshal(o.Request)
	if err != nil {
		s.t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/orders", bytes.NewReader(body))
	r.Header.Set("Idempotency-Key", o.Key)
	w := httptest.NewRecorder()
	if s.orders.ServeHTTP(w, r); w.Code != http.StatusCreated {
		s.t.Fatalf("%d: %s", w.Code, w.Body)
	}
}

func (s *shop) stepUntilQuiet() {
	s.t.Helper()
	for idle := 0; idle < 3; {
		idle++
		for _, one := range s.steppers {
			for busy := true; busy; {
				var err error
				if busy, err = one.Step(s.t.Context()); err != nil {
					s.t.Fatal(err)
				}
				if busy {
					idle = 0
				}
			}
		}
	}
}

// runUntilEnded runs all instances at the same time until the auditor finds nothing missing.
func (s *shop) runUntilEnded() {
	s.t.Helper()
	ctx, stop := context.WithTimeout(s.t.Context(), most)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- skald.Run(ctx, s.runners...) }()
	for ctx.Err() == nil && !s.ended() {
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	stop()
	if err := <-ended; err != nil {
		s.t.Error(err)
	}
}

func (s *shop) audit() []audit.Invariant {
	s.t.Helper()
	databases, err := s.place.Read(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	found, err := audit.Run(s.t.Context(), databases)
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

func (s *shop) ended() bool {
	s.t.Helper()
	for _, i := range s.audit() {
		if !i.OK && (i.Name == "orders_ended" || i.Name == "delivered_to_all") {
			return false
		}
	}
	return true
}

func (s *shop) allHold() {
	s.t.Helper()
	for _, i := range s.audit() {
		if !i.OK || i.Checked == 0 {
			s.t.Errorf("%s: ok %t, checked %d: %s", i.Name, i.OK, i.Checked, i.Detail)
		}
	}
}

// Two instances of each service share its database and its group.
func TestTwoInstancesOnSQLite(t *testing.T) {
	t.Parallel()
	s := open(t, "sqlite:"+t.TempDir(), "mem:", "", "1", "2")
	s.order(2, 60)
	s.runUntilEnded()
	s.allHold()
}

func TestPostgresStepByStep(t *testing.T) {
	t.Parallel()
	s := open(t, database(t), "mem:", "test", "1")
	s.order(1, 50)
	s.stepUntilQuiet()
	s.allHold()
	s.checkStories()
}

// The newest version that is supported; the other tests have the oldest.
func TestPostgres18StepByStep(t *testing.T) {
	need.Nightly(t, "TestPostgresStepByStep and the conformance of pgstore on 18 stay")
	t.Parallel()
	s := open(t, databaseAt(t, need.PostgresVersion(t, "18")), "mem:", "test", "1")
	s.order(1, 50)
	s.stepUntilQuiet()
	s.allHold()
	s.checkStories()
}

func TestSQLiteStepByStep(t *testing.T) {
	t.Parallel()
	s := open(t, "sqlite:"+t.TempDir(), "mem:", "", "1")
	s.order(1, 50)
	s.stepUntilQuiet()
	s.allHold()
	s.checkStories()
}

// tellsStories: the tally is that of the databases, and the story of an order whose parcel failed is whole.
func (s *shop) checkStories() {
	s.t.Helper()
	dbs, err := s.place.Read(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	tally, err := audit.Count(s.t.Context(), dbs)
	if err != nil {
		s.t.Fatal(err)
	}
	if want := (audit.Tally{Placed: 50, Confirmed: 36, Cancelled: 14, Written: 244, Handled: 593,
		Tracked: 244}); tally != want {
		s.t.Errorf("tally %+v, want %+v", tally, want)
	}
	var id string
	const failed = "SELECT id FROM /*schema*/orders WHERE reason = 'shipping_failed' ORDER BY id LIMIT 1"
	if err := dbs["order"].QueryRow(s.t.Context(), failed).Scan(&id); err != nil {
		s.t.Fatal(err)
	}
	story, err := audit.Story(s.t.Context(), dbs, id)
	if err != nil {
		s.t.Fatal(err)
	}
	var got []string
	for _, c := range story {
		got = append(got, fmt.Sprintf("%d %s %s %d", c.Depth, c.Service, c.Type, len(c.Taken)))
	}
	// released and refunded arrive in any order, and so do the messages caused by the later one
	slices.Sort(got[4:])
	want := []string{"0 order order.placed 2", "1 payment payment.taken 3", "2 inventory stock.reserved 3",
		"3 fulfilment parcel.failed 4",
		"4 inventory stock.released 2", "4 payment payment.refunded 2", "5 order order.cancelled 2"}
	if !slices.Equal(got, want) {
		s.t.Errorf("the story is %q, want %q", got, want)
	}
}

func TestTwoInstancesOnPostgres(t *testing.T) {
	t.Parallel()
	s := open(t, database(t), "mem:", "test", "1", "2")
	s.order(2, 100)
	s.runUntilEnded()
	s.allHold()
}

func TestTwoInstancesThroughPgBouncer(t *testing.T) {
	need.Nightly(t, "TestTwoInstancesOnPostgres and the conformance through PgBouncer stay")
	t.Parallel()
	at, err := url.Parse(need.PgBouncer(t))
	if err != nil {
		t.Fatal(err)
	}
	direct, err := url.Parse(database(t))
	if err != nil {
		t.Fatal(err)
	}
	at.Path = direct.Path
	s := open(t, at.String(), "mem:", "test", "1", "2")
	s.order(2, 100)
	s.runUntilEnded()
	s.allHold()
}

func TestTwoInstancesOnPostgresAndKafka(t *testing.T) {
	t.Parallel()
	kafka := need.Kafka(t)
	prefix := "shop" + strings.ToLower(rand.Text()[:10])
	s := open(t, database(t), "kafka://"+kafka, prefix, "1", "2")
	removeTopics(t, kafka, event.New(prefix).Topics())
	s.order(3, 100)
	s.runUntilEnded()
	s.allHold()
}

// What is there stays: a second preparation adds nothing, and another prefix is another shop.
func TestPrepareTwice(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(*testing.T) string{
		"sqlite": func(t *testing.T) string { return "sqlite:" + t.TempDir() }, "postgres": database,
	} {
		t.Run(name, func(t *testing.T) {
			url := at(t)
			s := open(t, url, "mem:", "test", "1")
			s.order(1, 10)
			s.stepUntilQuiet()
			before := s.audit()
			after := open(t, url, "mem:", "test", "1").audit()
			for i := range before {
				if before[i] != after[i] {
					t.Errorf("%+v became %+v", before[i], after[i])
				}
			}
		})
	}
}
