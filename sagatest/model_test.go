package sagatest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// The model shop has order, payment (two instances) and stock, each with its own database. An order is paid
// from the customer's account, or declined. Then its goods are reserved, or the money is paid back.
// Payments have the customer's key, so several orders share a key.

type order struct {
	ID, Customer    string
	Cents, Quantity int
}

type deposit struct {
	ID, Customer string
	Cents        int
}

const (
	initialBalance = 100
	initialStock   = 3
	payday         = 12 // the turn of the deposits: the first orders are decided by then
)

// load has the requests in one world.
type load struct {
	orders   []order
	cancels  []order // the orders that are cancelled after they are placed
	deposits []deposit
}

// smallLoad has an order that is confirmed and one that is undone. largeLoad has several orders of each
// customer, one that is declined, and a deposit.
func smallLoad() load {
	return load{orders: []order{
		{"o1", "ann", 60, 2}, // confirmed
		{"o2", "bob", 70, 2}, // not enough goods: refunded
	}}
}

func largeLoad() load {
	return load{
		orders: append(smallLoad().orders, order{"o3", "ann", 50, 1}, order{"o4", "bob", 20, 1},
			order{"o5", "cid", 500, 1}),
		deposits: []deposit{{"d1", "ann", 30}},
	}
}

// cancelLoad has orders that are cancelled immediately: ann's only order, bob's second one, for which the
// goods are missing, and one that cid cannot pay.
func cancelLoad() load {
	l := load{orders: []order{{"o1", "ann", 60, 2}, {"o2", "bob", 30, 1}, {"o3", "bob", 30, 3},
		{"o4", "cid", 500, 1}}}
	l.cancels = []order{l.orders[0], l.orders[2], l.orders[3]}
	return l
}

// wiring adds wrappers between the components of a process and its store and broker. Nil adds none.
type wiring struct {
	driver    func(d db, to broker.Broker, service string) db
	database  func(raw *memstore.Store) db // inside the explored wrapper
	subscribe func(b broker.Broker) broker.Broker
	publish   func(p *sagatest.Process, b broker.Broker) broker.Broker
	identity  func(broker.Delivery) (store.Identity, error)
	unheld    string // an invariant that does not apply then
	keep      bool   // rows are deleted once every shard has passed them
}

type model struct {
	w    *sagatest.World
	wire wiring
	load load
	late bool // the topic payments does not exist at first
	anew int  // if not 0, the turn in which it is deleted, to be recreated later
	dbs  map[string]*memstore.Store
	bus  *membroker.Broker
	sent int // orders and deposits that the clients know to be stored
	turn int // of the clients

	cursors map[shardOf][2]int64   // as last read
	gone    map[string][]store.Row // rows that retention may have deleted
}

type shardOf struct {
	service string
	id      int
}

func build(l load, wire wiring) func(w *sagatest.World) error {
	return func(w *sagatest.World) error { return newModel(w, l, wire, model{}) }
}

// buildAnew returns a world in which a topic is deleted with its unread messages, and later recreated.
func buildAnew(l load, wire wiring, turn int) func(w *sagatest.World) error {
	return func(w *sagatest.World) error { return newModel(w, l, wire, model{anew: turn}) }
}

// buildLate returns a world in which a topic is created late, so that rows are deferred.
func buildLate(l load) func(w *sagatest.World) error {
	return func(w *sagatest.World) error { return newModel(w, l, wiring{}, model{late: true}) }
}

func newModel(w *sagatest.World, l load, wire wiring, with model) error {
	m := &model{w: w, wire: wire, load: l, late: with.late, anew: with.anew,
		dbs: map[string]*memstore.Store{}, cursors: map[shardOf][2]int64{}, gone: map[string][]store.Row{}}
	m.bus = membroker.New(nil)
	for _, name := range []string{"order", "payment", "stock"} {
		m.dbs[name] = memstore.New(&memstore.Options{Source: "/" + name, Shards: 2, Now: w.Now,
			Wait: time.Millisecond})
	}
	topics := []string{"orders", "deposits", "stock", "payments"}
	if m.late {
		topics = topics[:3]
	}
	if err := m.bus.MakeTopics(context.Background(), 2, topics...); err != nil {
		return err
	}
	m.processes()
	m.invariants()
	return nil
}

func (m *model) processes() {
	m.process("order", "order", (*model).orderHandlers)
	m.process("payment-1", "payment", (*model).paymentHandlers)
	m.process("payment-2", "payment", (*model).paymentHandlers).Down = 4 * time.Second
	m.process("stock", "stock", (*model).stockHandlers)
	if m.late || m.anew > 0 {
		m.w.Process("operator", func(p *sagatest.Process) error {
			p.Step(&operator{m: m})
			return nil
		})
	}
}

// operator creates the missing topic, or first deletes it.
type operator struct {
	m    *model
	turn int
}

func (o *operator) Step(ctx context.Context) (bool, error) {
	switch o.turn++; {
	case o.m.late && o.turn == 10, o.m.anew > 0 && o.turn == o.m.anew+3:
		return true, o.m.bus.MakeTopics(ctx, 2, "payments")
	case o.turn == o.m.anew:
		return true, o.m.bus.RemoveTopics(ctx, "payments")
	}
	return o.turn < 10 || o.turn < o.m.anew+3, nil
}

// session is one session of a process.
type session struct {
	p       *sagatest.Process
	service string
	session *memstore.Store
	out     *outbox.Outbox[*memstore.Tx]
	in      *inbox.Inbox[*memstore.Tx]
}

func (m *model) process(name, service string, handlers func(*model, *session)) *sagatest.Process {
	return m.w.Process(name, func(p *sagatest.Process) error {
		l := &session{p: p, service: service, session: m.dbs[service].Session()}
		p.OnCrash(l.session.Kill)
		var d db = l.session
		if m.wire.database != nil {
			d = m.wire.database(l.session)
		}
		d = sagatest.CrashDriver(p, d)
		from, to := sagatest.CrashBroker(p, m.bus.Client()), sagatest.CrashBroker(p, m.bus.Client())
		if m.wire.subscribe != nil {
			from = m.wire.subscribe(from)
		}
		if m.wire.publish != nil {
			to = m.wire.publish(p, to)
		}
		if m.wire.driver != nil {
			d = m.wire.driver(d, to, service)
		}
		quiet := slog.New(slog.DiscardHandler)
		l.out = outbox.New(d, &outbox.Options{Now: m.w.Now, NewID: m.w.NewID})
		l.in = inbox.New(d, from, service, &inbox.Options{
			Now: m.w.Now, NewID: m.w.NewID, Logger: quiet, Transaction: inbox.Transaction{Entities: entities},
			Instance: inbox.Instance{Member: name},
			Timeouts: inbox.Timeouts{Wait: time.Millisecond, Handle: time.Second},
			Retry: inbox.Retry{InitialInterval: time.Microsecond,
				MaxInterval: time.Millisecond}, Identity: inbox.Identity{Of: m.wire.identity},
		})
		if service == "order" {
			p.Step(&shopper{m, l})
		}
		handlers(m, l)
		p.Step(l.in, relay.New(d, to, &relay.Options{
			Now: m.w.Now, Owner: name, Logger: quiet, RetryFirst: time.Microsecond,
			RetryMost: time.Millisecond,
		}))
		if m.wire.keep {
			p.Step(keeper{m, service, d})
		}
		return nil
	})
}

// keeper deletes old rows in each turn, and records these rows.
type keeper struct {
	m       *model
	service string
	db      db
}

func (k keeper) Step(ctx context.Context) (bool, error) {
	k.m.gone[k.service] = k.m.rows(k.service)
	_, err := k.db.Maintain(ctx, store.Maintain{Keep: store.Retention{Outbox: time.Nanosecond}})
	return false, err
}

// rows returns all rows that were ever committed, in order.
func (m *model) rows(service string) []store.Row {
	if m.gone[service] == nil {
		return m.dbs[service].Rows()
	}
	all, have := slices.Clone(m.gone[service]), map[int64]bool{}
	for _, r := range all {
		have[r.Seq] = true
	}
	for _, r := range m.dbs[service].Rows() {
		if !have[r.Seq] {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b store.Row) int { return cmp.Compare(a.Seq, b.Seq) })
	return all
}

// entities returns the customer's account and the goods.
func entities(msg skald.Message) []store.Lock {
	var v struct{ Customer string }
	if err := (skald.JSON{}).Decode(context.Background(), msg, &v); err != nil {
		return nil
	}
	return []store.Lock{{Space: "customer", Key: v.Customer}}
}

// shopper sends the orders and deposits, two in each step. It repeats each one until the result shows that it
// is stored.
type shopper struct {
	m *model
	l *session
}

func (c *shopper) Step(ctx context.Context) (bool, error) {
	c.m.turn++
	busy := c.m.sent < len(c.m.load.orders)+len(c.m.load.cancels)+len(c.m.load.deposits)
	for range 2 {
		if err := c.next(ctx); err != nil {
			return busy, err
		}
	}
	return busy, nil
}

func (c *shopper) next(ctx context.Context) error {
	l, n := c.m.load, c.m.sent
	switch {
	case n < len(l.orders):
		o := l.orders[n]
		return c.place(ctx, "order/"+o.ID, skald.Event[order]{Topic: "orders", Type: "order.placed"}.New(o.ID,
			o))
	case n < len(l.orders)+len(l.cancels):
		o := l.cancels[n-len(l.orders)]
		return c.place(ctx, "cancel/"+o.ID,
			skald.Event[order]{Topic: "orders", Type: "order.cancel_asked"}.New(o.ID, o))
	case n < len(l.orders)+len(l.cancels)+len(l.deposits) && c.m.turn > payday:
		d := l.deposits[n-len(l.orders)-len(l.cancels)]
		return c.place(ctx, "deposit/"+d.ID,
			skald.Event[deposit]{Topic: "deposits", Type: "deposit.made"}.New(d.ID, d))
	}
	return nil
}

func (c *shopper) place(ctx context.Context, key string, d skald.Draft) error {
	tx := c.l.session.BeginTx()
	err := tx.Insert(key, "pending")
	if errors.Is(err, memstore.ErrExists) {
		c.m.sent++
		return tx.Rollback()
	}
	if err == nil {
		err = c.l.out.Write(ctx, tx, d)
	}
	if err == nil {
		err = c.l.p.IO("Commit "+key, tx.Commit)
	}
	if err != nil {
		_ = tx.Rollback() // it is retried
		return nil
	}
	c.m.sent++
	return nil
}

// on handles an event once. It writes the effect, the emitted messages, and the notes for the invariants.
func on[T any](l *session, topic, typ string, h func(ctx context.Context, tx *memstore.Tx, v T) error) {
	inbox.On(l.in, skald.Event[T]{Topic: topic, Type: typ},
		func(ctx context.Context, tx *memstore.Tx, r skald.Received[T]) error {
			if err := add(tx, "effect/"+l.service+"/"+r.Source+"/"+r.ID, 1); err != nil {
				return err
			}
			took := "took/" + l.service + "/" + topic + "/" + string(r.Key)
			if err := tx.Update(took,
				func(old string, _ bool) string { return old + r.Sequence + " " }); err != nil {
				return err
			}
			return h(ctx, tx, r.Value)
		})
}

func add(tx *memstore.Tx, key string, n int) error {
	return tx.Update(key, func(old string, _ bool) string {
		was, _ := strconv.Atoi(old)
		return strconv.Itoa(was + n)
	})
}

func number(tx *memstore.Tx, key string, otherwise int) int {
	text, ok := tx.Get(key)
	if !ok {
		return otherwise
	}
	n, _ := strconv.Atoi(text)
	return n
}

func say[T any](ctx context.Context, l *session, tx *memstore.Tx, topic, typ, key string, v T) error {
	return l.out.Write(ctx, tx, skald.Event[T]{Topic: topic, Type: typ}.New(key, v))
}

func (m *model) orderHandlers(l *session) {
	ends := func(state string) func(context.Context, *memstore.Tx, order) error {
		return func(ctx context.Context, tx *memstore.Tx, o order) error {
			if err := tx.Put("order/"+o.ID, state); err != nil {
				return err
			}
			return say(ctx, l, tx, "orders", "order."+state, o.ID, o)
		}
	}
	on(l, "payments", "payment.declined", ends("cancelled"))
	on(l, "payments", "payment.barred", ends("cancelled"))
	on(l, "payments", "payment.refunded", ends("cancelled"))
	on(l, "stock", "stock.reserved", ends("confirmed"))
}

func (m *model) paymentHandlers(l *session) {
	move := func(tx *memstore.Tx, o order, cents int) error {
		balance := number(tx, "balance/"+o.Customer, initialBalance)
		if err := tx.Put("balance/"+o.Customer, strconv.Itoa(balance-cents)); err != nil {
			return err
		}
		return errors.Join(add(tx, "till", cents), add(tx, "paid/"+o.ID, cents))
	}
	on(l, "orders", "order.placed", func(ctx context.Context, tx *memstore.Tx, o order) error {
		if number(tx, "barred/"+o.ID, 0) > 0 {
			return skald.Reject(errors.New("cancelled"),
				skald.Event[order]{Topic: "payments", Type: "payment.barred"}.New(o.Customer, o))
		}
		if number(tx, "balance/"+o.Customer, initialBalance) < o.Cents {
			return skald.Reject(errors.New("no money"),
				skald.Event[order]{Topic: "payments", Type: "payment.declined"}.New(o.Customer, o))
		}
		if err := move(tx, o, o.Cents); err != nil {
			return err
		}
		return say(ctx, l, tx, "payments", "payment.taken", o.Customer, o)
	})
	on(l, "stock", "stock.short", func(ctx context.Context, tx *memstore.Tx, o order) error {
		if err := move(tx, o, -o.Cents); err != nil {
			return err
		}
		return say(ctx, l, tx, "payments", "payment.refunded", o.Customer, o)
	})
	on(l, "stock", "stock.stopped", func(ctx context.Context, tx *memstore.Tx, o order) error {
		if number(tx, "paid/"+o.ID, 0) == 0 {
			return add(tx, "barred/"+o.ID, 1)
		}
		if err := move(tx, o, -o.Cents); err != nil {
			return err
		}
		return say(ctx, l, tx, "payments", "payment.refunded", o.Customer, o)
	})
	on(l, "deposits", "deposit.made", func(ctx context.Context, tx *memstore.Tx, d deposit) error {
		balance := number(tx, "balance/"+d.Customer, initialBalance)
		if err := tx.Put("balance/"+d.Customer, strconv.Itoa(balance+d.Cents)); err != nil {
			return err
		}
		return say(ctx, l, tx, "payments", "payment.credited", d.Customer, d)
	})
}

func (m *model) stockHandlers(l *session) {
	on(l, "payments", "payment.taken", func(ctx context.Context, tx *memstore.Tx, o order) error {
		if number(tx, "stopped/"+o.ID, 0) > 0 {
			return skald.Reject(errors.New("cancelled")) // its consequences were emitted before
		}
		left := number(tx, "available", initialStock)
		if left < o.Quantity {
			return say(ctx, l, tx, "stock", "stock.short", o.ID, o)
		}
		err := errors.Join(tx.Put("available", strconv.Itoa(left-o.Quantity)),
			add(tx, "reserved/"+o.ID, o.Quantity))
		if err != nil {
			return fmt.Errorf("reserve: %w", err)
		}
		return say(ctx, l, tx, "stock", "stock.reserved", o.ID, o)
	})
	// The reserved goods are being sent, so it is too late to cancel. Otherwise later messages about the
	// order have no effect.
	on(l, "orders", "order.cancel_asked", func(ctx context.Context, tx *memstore.Tx, o order) error {
		if number(tx, "reserved/"+o.ID, 0) > 0 {
			return nil
		}
		if err := add(tx, "stopped/"+o.ID, 1); err != nil {
			return err
		}
		return say(ctx, l, tx, "stock", "stock.stopped", o.ID, o)
	})
}
