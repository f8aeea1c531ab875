package sagatest_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store/memstore"
)

// ExampleSearch: a shop emits that an order was placed, and a warehouse packs a parcel for it. After a
// crash at any I/O there is one parcel.
func ExampleSearch() {
	placed := skald.Event[string]{Topic: "orders", Type: "order.placed"}
	pack := func(_ context.Context, tx *memstore.Tx, _ skald.Received[string]) error {
		return tx.Update("parcels", func(old string, _ bool) string {
			n, _ := strconv.Atoi(old)
			return strconv.Itoa(n + 1)
		})
	}

	world := func(w *sagatest.World) error {
		ctx, quiet := context.Background(), slog.New(slog.DiscardHandler)
		shop, warehouse := memstore.New(&memstore.Options{Now: w.Now}),
			memstore.New(&memstore.Options{Now: w.Now})
		bus := membroker.New(nil)
		if err := bus.MakeTopics(ctx, 1, "orders"); err != nil {
			return err
		}
		tx := shop.BeginTx()
		out := outbox.New(shop, &outbox.Options{Now: w.Now, NewID: w.NewID})
		if err := out.Write(ctx, tx, placed.New("o-1", "tea")); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}

		w.Process("shop", func(p *sagatest.Process) error {
			db := sagatest.CrashDriver[*memstore.Tx](p, shop.Session())
			p.Step(relay.New(db, sagatest.CrashBroker(p, bus.Client()),
				&relay.Options{Owner: "shop", Now: w.Now, Logger: quiet}))
			return nil
		})
		w.Process("warehouse", func(p *sagatest.Process) error {
			db := sagatest.CrashDriver[*memstore.Tx](p, warehouse.Session())
			in := inbox.New(db, sagatest.CrashBroker(p, bus.Client()), "warehouse",
				&inbox.Options{Instance: inbox.Instance{Member: "warehouse"}, Now: w.Now, Logger: quiet})
			inbox.On(in, placed, pack)
			p.Step(in)
			return nil
		})
		w.Finally("one parcel", func() error {
			if n := warehouse.User()["parcels"]; n != "1" {
				return fmt.Errorf("there are %q", n)
			}
			return nil
		})
		return nil
	}

	// in a test: Explore(t, world, …)
	r, err := sagatest.Search(context.Background(), world, &sagatest.Options{Pairs: true})
	fmt.Println(len(r.Failures), r.Schedules > 100, err)
	// Output: 0 true <nil>
}
