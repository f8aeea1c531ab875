package service_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore"
)

// home returns an empty database of one service, with Skald's tables.
func home(t *testing.T, name string) (*sql.DB, table.Home[*sql.Tx]) {
	t.Helper()
	path := filepath.Join(folder(t), name+".db")
	text, err := migrated(name)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db, table.SQLite(db, sqlitestore.New(db, nil))
}

// folder returns a directory in memory if there is one: these tests are not about disks.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "skald-shop-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// migrations has the files that home copies: migrating takes longer than most of these tests.
var migrations sync.Map

// migrated returns an empty database with Skald's tables, as a file.
func migrated(name string) ([]byte, error) {
	once, _ := migrations.LoadOrStore(name, sync.OnceValues(func() ([]byte, error) { return migrate(name) }))
	return once.(func() ([]byte, error))()
}

func migrate(name string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "skald-shop-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, name+".db")
	db, err := sqlitestore.Open(path)
	if err != nil {
		return nil, err
	}
	_, err = sqlitestore.Migrate(context.Background(), db,
		&sqlitestore.MigrateOptions{Source: "/test/" + name})
	if err = errors.Join(err, db.Close()); err != nil { // this leaves no data in the WAL file
		return nil, err
	}
	return os.ReadFile(path)
}

// bus returns a broker with the shop's topics.
func bus(t *testing.T) *membroker.Broker {
	t.Helper()
	b := membroker.New(nil)
	if err := b.MakeTopics(t.Context(), 4, event.New("").Topics()...); err != nil {
		t.Fatal(err)
	}
	return b
}

// rig runs one service alone; the test sends its messages.
type rig struct {
	t   *testing.T
	db  *sql.DB
	bus *membroker.Broker
	svc *service.Service[*sql.Tx]
	ev  *event.Events
	n   int
}

func newRig(t *testing.T, name string) *rig {
	t.Helper()
	db, at := home(t, name)
	return rigAt(t, name, db, at, nil)
}

func rigAt(t *testing.T, name string, db *sql.DB, at table.Home[*sql.Tx], o *service.Options) *rig {
	t.Helper()
	r := &rig{t: t, db: db, bus: bus(t), ev: event.New("")}
	var err error
	if r.svc, err = service.New(name, at, r.bus, o); err != nil {
		t.Fatal(err)
	}
	if err := r.svc.Part.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// deliver sends the service a message, times times, and runs the service until it is idle.
func (r *rig) deliver(times int, d skald.Draft) {
	r.t.Helper()
	r.publish(times, d)
	quiet(r.t, r.svc.Inbox)
}

// publish publishes a message, times times.
func (r *rig) publish(times int, d skald.Draft) {
	r.t.Helper()
	data, err := json.Marshal(d.Value)
	if err != nil {
		r.t.Fatal(err)
	}
	r.n++
	m := skald.Message{
		ID: fmt.Sprintf("0190a000-0000-7000-8000-%012d", r.n), Source: "/test/other", Type: d.Type,
		Topic: d.Topic,
		Key:   d.Key, Time: time.Now(), ContentType: "application/json", Data: data,
	}
	for range times {
		if err := r.bus.Publish(r.t.Context(), []skald.Message{m}).Wait(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
	}
}

// quiet steps until all are idle.
func quiet(t *testing.T, steppers ...skald.Stepper) {
	t.Helper()
	for idle := 0; idle < 3; {
		idle++
		for _, s := range steppers {
			busy, err := s.Step(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if busy {
				idle = 0
			}
		}
	}
}

// sent returns the outbox of the service as "type key", in order.
func (r *rig) sent() []string {
	r.t.Helper()
	var out []string
	err := table.All(r.t.Context(), table.SQL(r.db), "SELECT type, key FROM skald_outbox ORDER BY seq", nil,
		func(row table.Row) error {
			var kind, key string
			err := row.Scan(&kind, &key)
			out = append(out, kind+" "+key)
			return err
		})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// num returns the number that a query returns.
func (r *rig) num(query string, args ...any) int64 {
	r.t.Helper()
	return num(r.t, r.db, query, args...)
}

func num(t *testing.T, db *sql.DB, query string, args ...any) (n int64) {
	t.Helper()
	if err := table.SQL(db).QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func (r *rig) want(n int64, query string, args ...any) {
	r.t.Helper()
	if got := r.num(query, args...); got != n {
		r.t.Errorf("%s is %d, want %d", query, got, n)
	}
}

// A whole shop, driven by one goroutine.
type shop struct {
	t    *testing.T
	dbs  map[string]*sql.DB
	all  map[string]*service.Service[*sql.Tx]
	work []skald.Stepper

	works bool // it runs while orders are placed
}

func newShop(t *testing.T, o *service.Options) *shop {
	t.Helper()
	return shopOver(t, bus(t), o, func(d store.Driver[*sql.Tx]) store.Driver[*sql.Tx] { return d })
}

func shopOver(t *testing.T, b broker.Broker, o *service.Options,
	over func(store.Driver[*sql.Tx]) store.Driver[*sql.Tx]) *shop {
	t.Helper()
	s := &shop{t: t, dbs: map[string]*sql.DB{}, all: map[string]*service.Service[*sql.Tx]{}}
	for _, name := range service.Names() {
		db, at := home(t, name)
		at.Store = over(at.Store)
		svc, err := service.New(name, at, b, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := svc.Part.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.dbs[name], s.all[name] = db, svc
		s.work = append(s.work, svc.Steppers()...)
	}
	return s
}

func (s *shop) audit(ctx context.Context) map[string]audit.Invariant {
	s.t.Helper()
	read := map[string]table.DB{}
	for name, db := range s.dbs {
		read[name] = table.SQL(db)
	}
	found, err := audit.Run(ctx, read)
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[string]audit.Invariant{}
	for _, i := range found {
		out[i.Name] = i
	}
	return out
}
