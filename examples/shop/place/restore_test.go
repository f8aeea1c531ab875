package place_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	mrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/sample"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
)

// drill is a shop of which one half has its databases put back to what a backup has, while the other half
// and the broker go on.
type drill[TTx any] struct {
	*testing.T
	prefix    string
	bus       *place.Bus
	stays     *place.Databases[TTx]
	back      *place.Databases[TTx] // databases that are restored from a backup
	ctx       context.Context
	mu        sync.Mutex
	recovered []string // services whose relays detected the restore
	orders    shop
	last      error // error of the last failed query
	wg        sync.WaitGroup
}

// halves: Fulfilment says what it does, the two others only listen.
func stay() []string   { return []string{"order", "payment", "inventory"} }
func goBack() []string { return []string{"fulfilment", "notification", "analytics"} }

func newDrill[TTx any](t *testing.T, prefix, bus string, stays, back *place.Databases[TTx]) *drill[TTx] {
	t.Helper()
	d := &drill[TTx]{T: t, prefix: prefix, stays: stays, back: back, orders: shop{t: t}}
	var err error
	if d.bus, err = place.OpenBus(bus); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	d.ctx = ctx
	t.Cleanup(func() {
		stop()
		d.wg.Wait()
		if err := errors.Join(d.bus.Close(), d.stays.Close(), d.back.Close()); err != nil {
			t.Error(err)
		}
	})
	d.run(ctx, d.stays, stay()...)
	return d
}

// run has services at work until ctx is done.
func (d *drill[TTx]) run(ctx context.Context, at *place.Databases[TTx], names ...string) (wait func()) {
	d.Helper()
	var wg sync.WaitGroup
	for _, name := range names {
		client, err := d.bus.Connect(name)
		if err == nil {
			err = place.MakeTopics(ctx, client, event.New(d.prefix), shards)
		}
		if err == nil {
			err = at.Prepare(ctx, name)
		}
		if err != nil {
			d.Fatal(err)
		}
		one := d.service(ctx, at, name)
		if one == nil {
			d.FailNow()
		}
		if h := one.HTTP(); h != nil {
			d.orders.orders = h
		}
		wg.Go(func() { d.keep(ctx, at, name, one) })
	}
	d.wg.Go(wg.Wait)
	return wg.Wait
}

func (d *drill[TTx]) service(ctx context.Context, at *place.Databases[TTx], name string) place.Service {
	o := &service.Options{Prefix: d.prefix}
	o.Inbox.Logger, o.Relay.Logger = slog.New(slog.DiscardHandler), slog.New(slog.DiscardHandler)
	client, err := d.bus.Connect(name)
	if err != nil {
		d.Error(err)
		return nil
	}
	one, err := at.Service(ctx, name, client, o)
	if err != nil {
		d.Error(err)
		return nil
	}
	return one
}

// keep does what the person on call does: where a relay ends because the database is not where it was,
// recover, and start again.
func (d *drill[TTx]) keep(ctx context.Context, at *place.Databases[TTx], name string, one place.Service) {
	for {
		err := skald.Run(ctx, one.Runners()...)
		if err == nil || ctx.Err() != nil {
			return
		}
		if !errors.Is(err, store.ErrMoved) {
			d.Errorf("%s ended: %v", name, err)
			return
		}
		home, err := at.Home(ctx, name)
		if err == nil {
			_, err = any(home.Store).(interface {
				Recover(ctx context.Context, note *store.Audit) (store.Recovered, error)
			}).Recover(ctx, &store.Audit{Author: "ann", Action: "recover"})
		}
		if err != nil {
			d.Errorf("recover %s: %v", name, err)
			return
		}
		d.mu.Lock()
		d.recovered = append(d.recovered, name)
		d.mu.Unlock()
		if one = d.service(ctx, at, name); one == nil {
			return
		}
	}
}

// place places n orders. What Fulfilment says of them may come twice, under two ids: that it was lost is not
// known to it. So they are orders that nothing is undone of because of that: what the carrier takes, and no
// cancellations.
func (d *drill[TTx]) place(n int) {
	d.Helper()
	took := 0
	for _, o := range sample.Orders(mrand.Uint64(), 2*n) {
		if took == n {
			return
		}
		heavy := slices.ContainsFunc(o.Items,
			func(l order.Line) bool { return slices.Contains(sample.Oversize(), l.SKU) })
		if !heavy {
			d.orders.send(o)
			took++
		}
	}
}

// number is what a query counts; -1 where the database cannot be asked: connections of before it was put back
// are dead.
func (d *drill[TTx]) number(service, query string) (n int) {
	d.Helper()
	at := d.stays
	if slices.Contains(goBack(), service) {
		at = d.back
	}
	home, err := at.Home(d.ctx, service)
	if err == nil {
		err = home.Read.QueryRow(d.ctx, query).Scan(&n)
	}
	if d.last = err; err != nil {
		return -1
	}
	return n
}

func (d *drill[TTx]) until(what string, done func() bool) {
	d.Helper()
	for end := time.Now().Add(most); !done(); <-time.After(250 * time.Millisecond) {
		if d.Failed() || time.Now().After(end) {
			d.Fatalf("waited in vain: %s\n%v %v", what, d.audit(), d.last)
		}
	}
}

// audit finds nothing where a database cannot be asked.
func (d *drill[TTx]) audit() []audit.Invariant {
	d.Helper()
	all := map[string]table.DB{}
	for at, names := range map[*place.Databases[TTx]][]string{d.stays: stay(), d.back: goBack()} {
		for _, name := range names {
			home, err := at.Home(d.ctx, name)
			if err != nil {
				d.Fatal(err)
			}
			all[name] = home.Read
		}
	}
	found, err := audit.Run(d.ctx, all)
	d.last = err
	return found
}

const shards = 8

// started tells whether all who go back have each of their shards: of a shard that a database has never heard
// of, a backup cannot say where it stood.
func (d *drill[TTx]) started() bool {
	d.Helper()
	listens := event.New(d.prefix).Listens()
	return !slices.ContainsFunc(goBack(), func(name string) bool {
		return d.number(name, "SELECT count(*) FROM /*schema*/skald_checkpoint") < shards*len(listens[name])
	})
}

const parcels, mails = `SELECT count(*) FROM /*schema*/parcels`, `SELECT count(*) FROM /*schema*/mails`

// through takes the shop through the drill: n orders, a backup, n more, the databases of the one half go
// back, n more.
func (d *drill[TTx]) through(n int, backup, restore func()) {
	d.Helper()
	d.until("those who go back have their shards", d.started)
	d.place(n)
	d.until("parcels leave",
		func() bool { return d.number("fulfilment", parcels) > n/4 && d.number("notification", mails) > n/4 })
	backup()
	had := d.number("fulfilment", parcels)
	d.place(n)
	d.until("more parcels leave, of which Order hears", func() bool {
		return d.number("order",
			`SELECT count(*) FROM /*schema*/journal WHERE type = 'parcel.shipped'`) > had+n/5
	})
	restore()
	d.place(n)
	d.until("every order ends", func() bool {
		found := d.audit()
		return len(found) > 0 && !slices.ContainsFunc(found, func(i audit.Invariant) bool {
			return !i.OK && (i.Name == "orders_ended" || i.Name == "delivered_to_all")
		})
	})
	found := d.audit()
	if d.last != nil {
		d.Fatal(d.last)
	}
	for _, i := range found {
		if !i.OK || i.Checked == 0 {
			d.Errorf("%s: ok %t, checked %d: %s", i.Name, i.OK, i.Checked, i.Detail)
		}
	}
	if placed := d.number("order", "SELECT count(*) FROM /*schema*/orders"); placed != 3*n {
		d.Errorf("%d orders were placed", placed)
	}
	again := d.number("order",
		`SELECT count(*) FROM (SELECT order_id FROM /*schema*/journal WHERE type = 'parcel.shipped' GROUP BY order_id HAVING count(*) > 1) AS o`)
	if again == 0 {
		d.Error("no parcel left a second time: were the databases put back?")
	}
	d.Logf("%d parcels were forgotten and left again; recovered: %v", again, d.recovered)
}

// The PostgreSQL cluster of the one half is put back under the living services, while Kafka, or NATS, goes
// on. What they had taken since the backup comes again; what their relays had published since, they do not
// know of: they stop, are recovered, and go on.
func TestShopWithRestoredDatabases(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a PostgreSQL cluster: not with -short")
	}
	for name, at := range map[string]func(*testing.T, string) string{
		"kafka": func(t *testing.T, prefix string) string {
			seeds := need.Kafka(t)
			removeTopics(t, seeds, event.New(prefix).Topics())
			return "kafka://" + seeds
		},
		"nats": func(t *testing.T, _ string) string { return need.NATS(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := "back" + strings.ToLower(rand.Text()[:10])
			// the machine does not crash in this test
			bus, cluster := at(t, prefix), need.NewCluster(t, "fsync = off")
			cluster.SQL("postgres", "CREATE DATABASE shop")
			stays, err := place.Postgres(database(t), prefix)
			if err != nil {
				t.Fatal(err)
			}
			back, err := place.Postgres(cluster.URL("shop"), prefix)
			if err != nil {
				t.Fatal(err)
			}
			d := newDrill[pgx.Tx](t, prefix, bus, stays, back)
			d.run(d.ctx, d.back, goBack()...)
			var early *need.Cluster
			d.through(16, func() { early = cluster.Backup() }, func() {
				cluster.Stop("immediate")
				cluster.Restore(early)
				cluster.Start()
			})
			if !slices.Contains(d.recovered, "fulfilment") {
				t.Error("the relay of Fulfilment did not find out that its database went back")
			}
		})
	}
}

// The same on SQLite: the services are ended, the files of a backup are copied over theirs, and they are
// started again.
func TestShopWithRestoredFiles(t *testing.T) {
	here, there := t.TempDir(), t.TempDir()
	d := newDrill[*sql.Tx](t, "", "mem:", place.SQLite(here), place.SQLite(there))
	ctx, stop := context.WithCancel(d.ctx)
	wait := d.run(ctx, d.back, goBack()...)
	saved := t.TempDir()
	d.through(10, func() {
		for _, name := range goBack() { // while the services write
			home, err := d.back.Home(t.Context(), name)
			if err == nil {
				_, err = home.Read.Exec(t.Context(), "VACUUM INTO '"+filepath.Join(saved, name+".db")+"'")
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}, func() {
		stop()
		wait()
		if err := d.back.Close(); err != nil {
			t.Fatal(err)
		}
		for _, name := range goBack() {
			path := filepath.Join(there, name+".db")
			for _, tail := range []string{"-wal", "-shm"} { // they belong to the replaced file
				if err := os.Remove(path + tail); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(filepath.Join(saved, name+".db"))
			if err == nil {
				err = os.WriteFile(path, text, 0o600)
			}
			if err != nil {
				t.Fatal(fmt.Errorf("copy back: %w", err))
			}
		}
		d.back = place.SQLite(there)
		d.run(d.ctx, d.back, goBack()...)
	})
}
