package killtest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/examples/shop/sample"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store/pgstore"
)

var (
	soakSagas = flag.Int("soak.sagas", 0, "sagas of TestSoak, which is skipped without")
	soakFor   = flag.Duration("soak.for", 0, "how long TestSoak starts sagas at most; 0: until it has all")
)

// A fault every 15 to 45 s: a deck of ten in 5 min, with one crash of each server. Kafka needs 10 s to
// restart and its groups 10 s more: with a fault every second it would be down half of the time.
const soakRest, soakDeck = 15 * time.Second, 5 * time.Minute

// openMost limits the orders in progress: customers wait if the shop is stuck.
const openMost = 2000

// Sagas of the orchestrated shop, with kill -9 and stops of its engines and participants and restarts of
// PostgreSQL and Kafka: every saga ends, done or compensated, and the auditor finds every invariant kept. A
// saga whose process happens to be killed three times in a row at one step is stuck; the test retries it,
// as an operator would. No other saga is stuck.
func TestSoak(t *testing.T) {
	if *soakSagas == 0 {
		t.Skip("-soak.sagas says how many: make soak")
	}
	w := newWorld(t, "--orchestrated")
	c := newCustomers(w)
	c.wish = true
	w.tell("all instances serve")
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	orders, placed := make(chan sample.Order), make(chan struct{})
	go func() {
		defer close(placed)
		c.place(t.Context(), orders)
	}()
	fed, counts, asked := make(chan struct{}), map[string]int{}, 0
	go func() {
		defer close(fed)
		defer close(orders)
		asked = soak(w, orders, seed)
	}()
	for round, over := seed, false; !over; round++ {
		p := newPlan(round, soakDeck, soakRest, len(w.instances), w.pooler != "")
		p.carryOut(t.Context(), w)
		for what, n := range p.count() {
			counts[what] += n
		}
		w.alive()
		t.Logf("%v: %d orders placed; %v", time.Since(w.began).Round(time.Second), len(c.ids()), counts)
		select {
		case <-fed:
			over = true
		case <-t.Context().Done():
			return
		default:
		}
	}
	<-placed
	w.tell("all orders placed")
	retried := w.endSagas(c)
	w.eventually("the auditor's verdict", func() error {
		_, err := w.audit()
		return err
	})
	stand, err := query[string](t.Context(), w,
		`SELECT status || CASE WHEN stuck THEN ' and stuck' ELSE '' END || ': ' || count(*) FROM `+
			w.prefix+`_order.skald_saga GROUP BY status, stuck ORDER BY 1`)
	if err != nil {
		t.Error(err)
	}
	whole, err := query[int](t.Context(), w, `SELECT count(*)::int FROM `+w.prefix+
		`_order.skald_saga WHERE status IN ('done', 'compensated') AND NOT stuck`)
	if err != nil || len(c.ids()) != asked || whole[0] != asked {
		t.Errorf("%d orders are placed, %v sagas have ended: %v, %v", len(c.ids()), whole, stand, err)
	}
	t.Logf("seed %d, %v: %d sagas: %v; %d tried again after three kills; %v", seed,
		time.Since(w.began).Round(time.Second), asked, stand, retried, counts)
	ending(w)
}

// soak places orders as fast as the shop completes them, and returns their number.
func soak(w *world, orders chan<- sample.Order, seed uint64) (asked int) {
	ctx := w.t.Context()
	for n := 0; n < *soakSagas && (*soakFor == 0 || time.Since(w.began) < *soakFor); n += 100 {
		for tick := time.NewTicker(200 * time.Millisecond); ; {
			open, err := query[int](ctx, w, `SELECT count(*)::int FROM `+w.prefix+
				`_order.orders WHERE state NOT IN ('confirmed', 'cancelled')`)
			if err == nil && open[0] < openMost {
				tick.Stop()
				break
			}
			select { // or the server is down
			case <-tick.C:
			case <-ctx.Done():
				return asked
			}
		}
		for _, o := range sample.Orders(seed+uint64(n), min(100, *soakSagas-n)) { // other keys each time
			select {
			case orders <- o:
				asked++
			case <-ctx.Done():
				return asked
			}
		}
	}
	return asked
}

// endSagas waits until all orders have ended, as long as there is progress.
func (w *world) endSagas(c *customers) (retried int) {
	ctx := w.t.Context()
	pool, err := pgxpool.New(ctx, w.postgres)
	if err != nil {
		w.t.Fatal(err)
	}
	defer pool.Close()
	db := pgstore.New(pool, &pgstore.Options{Schema: w.prefix + "_order"})
	for fewest := *soakSagas + 1; ; {
		var open []int
		w.eventually("orders to end", func() error {
			killed := operate.SagaSelection{Stuck: true, Error: "ended its process"}
			stuck, err := operate.Sagas(ctx, db, killed)
			if err == nil && len(stuck) > 0 {
				var r operate.SagaReport
				r, err = operate.ChangeSagas(ctx, db, killed, operate.SagaChange{Verb: operate.RetrySaga},
					operate.Order{Author: "soak", Reason: "the test killed it"})
				retried += r.Done
			}
			if err != nil {
				return err
			}
			if open, err = query[int](ctx, w, `SELECT count(*)::int FROM `+w.prefix+
				`_order.orders WHERE state NOT IN ('confirmed', 'cancelled')`); err != nil {
				return err
			}
			if open[0] >= fewest {
				return fmt.Errorf("%d orders are open, and no fewer", open[0])
			}
			return nil
		})
		if fewest = open[0]; fewest == 0 {
			break
		}
	}
	if err := w.ended(ctx, c); err != nil {
		w.t.Error(err)
	}
	return retried
}
