package killtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/sample"
)

var (
	killFor    = flag.Duration("kill.for", 12*time.Second, "how long things go wrong")
	killSeed   = flag.Uint64("kill.seed", 0, "of what goes wrong, and when; 0: another each time")
	killPooler = flag.Bool("kill.pgbouncer", false,
		"all of the shop goes through PgBouncer in transaction mode, not half of it")
	killRate = flag.Int("kill.rate", 15, "orders placed a second meanwhile")
)

// moves is how long the work of a dead or paused instance may pause.
const moves = 10 * time.Second

// Real processes of the shop on PostgreSQL and Kafka are killed and stopped, and the servers crash: every
// order ends, and the auditor finds every invariant kept.
func TestKill(t *testing.T) {
	w := newWorld(t)
	c := newCustomers(w)
	c.wish = true
	w.tell("all instances serve")
	movesOn(w, c, w.of("payment")[0], (*instance).kill, (*instance).start)
	movesOn(w, c, w.of("inventory")[1], w.stopInHand, (*instance).wake)
	bankDies(w, c)
	chaos(w, c)
	ending(w)
}

// movesOn removes one instance during its work, and measures when all its work is done.
func movesOn(w *world, c *customers, victim *instance, away func(*instance), back func(*instance) error) {
	w.t.Helper()
	ctx := w.t.Context()
	w.eventually("the work to be shared", func() error { return w.shared(ctx, victim) })
	batch := func() time.Duration {
		at, orders := time.Now(), make(chan sample.Order, 20)
		for _, o := range sample.Orders(rand.Uint64(), cap(orders)) {
			orders <- o
		}
		close(orders)
		c.place(ctx, orders)
		w.eventually("the work to be done", func() error { return w.ended(ctx, c) })
		return time.Since(at)
	}
	usual := batch()
	more, stop := w.custom(c, *killRate*2)
	more(1)
	w.eventually("orders to be under way", func() error { return w.underWay(ctx) })
	away(victim)
	at := time.Now()
	w.tell("%s is away", victim)
	stop()
	w.eventually("shards to move on", func() error { return w.left(ctx, victim) })
	shards := time.Since(at)
	w.tell("the shards of %s have moved on", victim)
	batch()
	took := time.Since(at)
	w.tell("the work of %s is done", victim)
	w.t.Logf("the shards of %s moved on within %.1f s, and all orders ended within %.1f s; with all there, 20 take %.1f s", victim, shards.Seconds(), took.Seconds(), usual.Seconds())
	// The limit is for an idle machine. The time of 20 orders shows how busy this one is, before and, if it
	// may have become slower meanwhile, afterwards.
	late := func() bool { slow := 5 * usual; return shards > moves+slow || took > 2*moves+2*slow }
	if late() {
		usual = max(usual, batch())
	}
	if late() {
		w.t.Errorf("it took %v for the shards of %s to move on, at most %v are promised, and %v for all orders to end; 20 orders take %v\n%s",
			shards, victim, moves, took, usual, w.story())
	}
	if err := back(victim); err != nil {
		w.t.Fatal(err)
	}
}

// bankDies kills the gateway during its work: orders are accepted meanwhile, and wait for its next session.
func bankDies(w *world, c *customers) {
	w.t.Helper()
	more, stop := w.custom(c, *killRate)
	more(*killRate)
	bank := w.of(place.Bank)[0]
	bank.kill()
	w.tell("%s is away", bank)
	more(*killRate)
	if err := bank.start(); err != nil {
		w.t.Fatal(err)
	}
	more(1)
	stop()
}

// stopInHand stops an instance during a transaction: its locks block the others.
func (w *world) stopInHand(one *instance) {
	w.t.Helper()
	w.eventually("a transaction in the midst of which to stop", func() error {
		one.stop()
		open, err := query[int](w.t.Context(), w,
			`SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND state LIKE 'idle in transaction%'`, one.String())
		if err == nil && len(open) > 0 {
			return nil
		}
		return errors.Join(err, errors.New("it has none open"), one.wake())
	})
}

// chaos runs a plan while orders arrive, and then runs the auditor.
func chaos(w *world, c *customers) {
	t := w.t
	t.Helper()
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	p := newPlan(seed, *killFor, time.Second, len(w.instances), w.pooler != "")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("again: go test ./examples/shop/killtest -kill.seed=%d -kill.for=%v\nthe plan:\n%s\nwhat was done:\n%s", seed, *killFor, p.text(w), w.story())
		}
	})
	orders, done := make(chan sample.Order), make(chan struct{})
	go func() {
		defer close(done)
		c.place(t.Context(), orders)
	}()
	over := make(chan struct{})
	go func() {
		defer close(over)
		p.carryOut(t.Context(), w)
	}()
	n := feed(orders, seed, time.After(*killFor))
	close(orders)
	w.tell("%d orders asked for", n)
	<-over
	<-done
	w.tell("%d orders placed", len(c.ids()))
	w.alive()
	w.eventually("all orders to end", func() error { return w.ended(t.Context(), c) })
	w.tell("all orders have ended")
	w.eventually("the auditor's verdict", func() error {
		found, err := w.audit()
		for _, i := range found {
			if err == nil && i.Checked == 0 {
				return fmt.Errorf("%s was held against nothing", i.Name)
			}
		}
		return err
	})
	t.Logf("seed %d: %d orders, %d answered again, %v; every promise held", seed, len(c.ids()),
		c.repeated, p.count())
}

// feed places orders at a constant rate until the channel is closed.
func feed(orders chan<- sample.Order, seed uint64, over <-chan time.Time) int {
	pace := time.NewTicker(time.Second / time.Duration(*killRate))
	defer pace.Stop()
	for n := 0; ; {
		for _, o := range sample.Orders(seed+uint64(n), 100) { // other keys each time
			select {
			case <-over:
				return n
			case <-pace.C:
			}
			select {
			case <-over:
				return n
			case orders <- o:
				n++
			}
		}
	}
}

// ending ends every process gracefully.
func ending(w *world) {
	t := w.t
	t.Helper()
	for _, one := range w.instances {
		one.leave()
	}
	deadline := time.After(most)
	for _, one := range w.instances {
		select {
		case err := <-one.ended:
			if !errors.Is(err, errDone) {
				t.Errorf("%s: %v\n%s", one, err, one.tail())
			}
		case <-deadline:
			t.Fatalf("%s does not end\n%s", one, one.tail())
		}
	}
}

// query returns one value of each row.
func query[T any](ctx context.Context, w *world, sql string, args ...any) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	conn, err := pgx.Connect(ctx, w.postgres)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[T])
}

// underWay requires orders that have not ended.
func (w *world) underWay(ctx context.Context) error {
	open, err := query[string](ctx, w, `SELECT id FROM `+w.prefix+
		`_order.orders WHERE state NOT IN ('confirmed', 'cancelled')`)
	if err == nil && len(open) < 3 {
		err = fmt.Errorf("only %d are", len(open))
	}
	return err
}

// ended requires that every placed order has ended, and that there is no other order.
func (w *world) ended(ctx context.Context, c *customers) error {
	open, err := query[string](ctx, w, `SELECT id || ' is ' || state FROM `+w.prefix+
		`_order.orders WHERE state NOT IN ('confirmed', 'cancelled')`)
	if err != nil {
		return err
	}
	if len(open) > 0 {
		return fmt.Errorf("%d orders have not ended: %v", len(open), open[:min(len(open), 5)])
	}
	ids := c.ids()
	lost, err := query[string](ctx, w, `SELECT id FROM unnest($1::text[]) AS id EXCEPT SELECT id FROM `+
		w.prefix+`_order.orders`, ids)
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf("orders that were answered for are not there: %v", lost)
	}
	return err
}

// shared requires that both instances of a service own shards of the outbox and of the broker, so that the
// absence of one has an effect.
func (w *world) shared(ctx context.Context, one *instance) error {
	rows, topics, err := w.shards(ctx, one.service)
	if err != nil {
		return err
	}
	for _, each := range w.of(one.service) {
		if rows[each.member()] == 0 || topics[each.member()] == 0 {
			return fmt.Errorf("%s has %d shards of the outbox and %d partitions of the broker", each,
				rows[each.member()], topics[each.member()])
		}
	}
	return nil
}

// left requires that an instance owns no shards.
func (w *world) left(ctx context.Context, one *instance) error {
	rows, topics, err := w.shards(ctx, one.service)
	if n, m := rows[one.member()], topics[one.member()]; err == nil && n+m > 0 {
		err = fmt.Errorf("%s still has %d shards of the outbox and %d partitions of the broker", one, n, m)
	}
	if err == nil && len(topics) == 0 {
		err = errors.New("nobody has partitions of the broker")
	}
	return err
}

// shards counts, by owner, the shards of a service's outbox and its shards of the broker.
func (w *world) shards(ctx context.Context, service string) (rows, topics map[string]int, err error) {
	owners, err := query[string](ctx, w, `SELECT owner FROM `+w.prefix+`_`+service+
		`.skald_shard WHERE owner IS NOT NULL`)
	if err != nil {
		return nil, nil, err
	}
	rows, topics = map[string]int{}, map[string]int{}
	for _, o := range owners {
		rows[o]++
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(w.kafka))
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	group := w.prefix + "." + service
	groups, err := kadm.NewClient(client).DescribeGroups(ctx, group)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range groups[group].Members {
		if got, ok := m.Assigned.AsConsumer(); ok && m.InstanceID != nil {
			for _, t := range got.Topics {
				topics[*m.InstanceID] += len(t.Partitions)
			}
		}
	}
	return rows, topics, nil
}
