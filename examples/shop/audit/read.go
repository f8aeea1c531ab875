package audit

import (
	"context"
	"embed"
	"fmt"
	"maps"
	"slices"

	"github.com/skald-go/skald/examples/shop/table"
)

//go:embed sql/query
var queries embed.FS

// books is the content of the databases.
type books struct {
	orders    []order
	byID      map[string]*order
	answers   []posted // stored by Order, by key
	receipts  []posted // recorded by customers, by key
	accounts  []account
	transfers []transfer
	entries   []entry
	moves     []move // from the ledger of the gateway
	stock     []stock
	movements []movement
	mails     map[string]int
	mailbox   map[string]letter // by Message-ID, from the mail server; nil if there is none
	services  []*service
	sagas     map[string]saga   // by order; empty in a choreographed shop
	tracked   map[string]string // the state of each order's saga, in a choreographed shop

	cancellations map[string]string // the answers, by order
	changes       []change
	dispatches    map[string]dispatch
	parcels       map[parcel]int
}

type order struct {
	id, state, reason string
	cents             int64
	items             map[string]int64 // by SKU
}

func (o *order) ended() bool { return o.state == "confirmed" || o.state == "cancelled" }

type account struct {
	id      string
	balance int64
}

type transfer struct {
	id, kind, order string
	cents           int64
}

type move struct {
	transfer
	key string // idempotency key of the request
}

type entry struct {
	transfer, account string
	cents             int64
}

type stock struct {
	sku                            string
	delivered, available, reserved int64
}

type movement struct {
	order, sku string
	quantity   int64 // sum of the order's movements of the SKU
}

// service is the content of Skald's tables and the journal in one database.
type service struct {
	name    string
	outbox  []message
	marks   map[identity]mark
	journal []note
	steps   map[step]string // the states of its steps
}

// step identifies a step of a service, for an order or for one of its changes.
type step struct{ order, change string }

type identity struct{ source, id string }

type message struct {
	identity
	seq              int64
	topic, key, kind string
}

type mark struct {
	outcome string // done, rejected, barred
	arrival int64
}

type note struct {
	identity
	kind, order string
}

// services returns the required databases.
func services() []string {
	return []string{"order", "payment", "inventory", "fulfilment", "notification", "analytics"}
}

// reader runs queries until one fails.
type reader struct {
	ctx context.Context
	dbs map[string]table.DB
	sql map[string]string
	err error
	// words has the strings read so far: the ids of orders and messages occur in the tables of several
	// services.
	words map[string]string
}

// share replaces equal strings by one copy, to save memory.
func (r *reader) share(texts ...*string) {
	for _, t := range texts {
		known, ok := r.words[*t]
		if !ok {
			known = *t
			r.words[known] = known
		}
		*t = known
	}
}

func newReader(ctx context.Context, dbs map[string]table.DB) (*reader, error) {
	sql, err := table.Statements(queries)
	if err != nil {
		return nil, err
	}
	for _, name := range services() {
		if dbs[name] == nil {
			return nil, fmt.Errorf("no database of %s among %v", name, slices.Sorted(maps.Keys(dbs)))
		}
	}
	return &reader{ctx: ctx, dbs: dbs, sql: sql, words: map[string]string{}}, nil
}

func (r *reader) each(service, query string, one func(table.Row) error, args ...any) {
	if r.err != nil {
		return
	}
	if err := table.All(r.ctx, r.dbs[service], r.sql[query], args, one); err != nil {
		r.err = fmt.Errorf("read %s of %s: %w", query, service, err)
	}
}

func read(ctx context.Context, dbs map[string]table.DB) (*books, error) {
	r, err := newReader(ctx, dbs)
	if err != nil {
		return nil, err
	}
	b := &books{
		byID: map[string]*order{}, mails: map[string]int{},
		cancellations: map[string]string{}, dispatches: map[string]dispatch{}, parcels: map[parcel]int{},
	}
	b.readOrders(r)
	b.answers, b.receipts = r.posted("Answers"), r.posted("Receipts")
	b.readMoney(r)
	b.readStock(r)
	b.readParcels(r)
	r.each("notification", "Mails", func(row table.Row) error {
		var id string
		var n int
		err := row.Scan(&id, &n)
		b.mails[id] = n
		return err
	})
	b.mailbox = r.mailbox()
	b.sagas, b.tracked = r.sagas(), r.tracked()
	for _, name := range services() {
		b.services = append(b.services, readService(r, name))
	}
	return b, r.err
}

func (b *books) readOrders(r *reader) {
	r.each("order", "Orders", func(row table.Row) error {
		o := order{items: map[string]int64{}}
		defer func() { b.orders = append(b.orders, o) }()
		return row.Scan(&o.id, &o.cents, &o.state, &o.reason)
	})
	for i := range b.orders {
		b.byID[b.orders[i].id] = &b.orders[i]
	}
	r.each("order", "Items", func(row table.Row) error {
		var id, sku string
		var n int64
		if err := row.Scan(&id, &sku, &n); err != nil {
			return err
		}
		if o := b.byID[id]; o != nil {
			o.items[sku] = n
		}
		return nil
	})
}

func (b *books) readMoney(r *reader) {
	r.each("payment", "Accounts", func(row table.Row) error {
		var a account
		defer func() { b.accounts = append(b.accounts, a) }()
		return row.Scan(&a.id, &a.balance)
	})
	r.each("payment", "Transfers", func(row table.Row) error {
		var t transfer
		defer func() { b.transfers = append(b.transfers, t) }()
		return row.Scan(&t.id, &t.kind, &t.order, &t.cents)
	})
	r.each(r.gateway(), "Moves", func(row table.Row) error {
		var m move
		defer func() { b.moves = append(b.moves, m) }()
		return row.Scan(&m.id, &m.kind, &m.order, &m.cents, &m.key)
	})
	r.each("payment", "Entries", func(row table.Row) error {
		var e entry
		defer func() { b.entries = append(b.entries, e) }()
		return row.Scan(&e.transfer, &e.account, &e.cents)
	})
}

// gateway returns the database with the ledger of the gateway: its own, or that of Payment.
func (r *reader) gateway() string {
	if r.dbs["gateway"] != nil {
		return "gateway"
	}
	return "payment"
}

func (b *books) readStock(r *reader) {
	r.each("inventory", "Stock", func(row table.Row) error {
		var s stock
		defer func() { b.stock = append(b.stock, s) }()
		return row.Scan(&s.sku, &s.delivered, &s.available, &s.reserved)
	})
	r.each("inventory", "Movements", func(row table.Row) error {
		var m movement
		defer func() { b.movements = append(b.movements, m) }()
		return row.Scan(&m.order, &m.sku, &m.quantity)
	})
}

func readService(r *reader, name string) *service {
	s := &service{name: name, marks: map[identity]mark{}, steps: map[step]string{}}
	r.each(name, "Outbox", func(row table.Row) error {
		var m message
		defer func() { s.outbox = append(s.outbox, m) }()
		err := row.Scan(&m.seq, &m.id, &m.source, &m.topic, &m.key, &m.kind)
		r.share(&m.id, &m.source, &m.topic, &m.key, &m.kind)
		return err
	})
	r.each(name, "Marks", func(row table.Row) error {
		var id identity
		var m mark
		err := row.Scan(&id.source, &id.id, &m.outcome, &m.arrival)
		r.share(&id.source, &id.id)
		s.marks[id] = m
		return err
	})
	r.each(name, "Journal", func(row table.Row) error {
		var n note
		defer func() { s.journal = append(s.journal, n) }()
		err := row.Scan(&n.source, &n.id, &n.kind, &n.order)
		r.share(&n.source, &n.id, &n.kind, &n.order)
		return err
	})
	r.each(name, "Steps", func(row table.Row) error {
		var of step
		var state string
		err := row.Scan(&of.order, &of.change, &state)
		s.steps[of] = state
		return err
	})
	return s
}
