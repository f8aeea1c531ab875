// Package sample has made-up goods, customers and orders with all kinds of outcomes.
package sample

import (
	"fmt"
	"math/rand/v2"

	"github.com/skald-go/skald/examples/shop/order"
)

const plenty = 1_000_000_000

// Special goods and customers.
const (
	Rare      = "teapot"    // 20 pieces, for the first customers
	Sold      = "samovar"   // always out of stock
	Heavy     = "piano"     // the carrier refuses it
	Poor      = "penniless" // has no money
	Student   = "student"   // has 100.00, enough for a few orders
	rareStock = 20
	prints    = 25 // one piece of each: two or three customers want each at the same time
)

func numbered(i int) string { return fmt.Sprintf("print-%02d", i) }

// Prices returns the prices of goods, in cents.
func Prices() map[string]int64 {
	out := map[string]int64{
		"tea": 490, "coffee": 790, "mug": 1250, "spoon": 320, "kettle": 3900, "honey": 650, "jam": 410,
		"biscuit": 275,
		Rare:      2400, Sold: 48000, Heavy: 890000,
	}
	for i := range prints {
		out[numbered(i)] = 9500
	}
	return out
}

// Stock returns the initial number of pieces of each SKU.
func Stock() map[string]int64 {
	out := map[string]int64{}
	for sku := range Prices() {
		out[sku] = plenty
	}
	out[Rare], out[Sold] = rareStock, 0
	for i := range prints {
		out[numbered(i)] = 1
	}
	return out
}

// Oversize returns the SKUs that the carrier refuses.
func Oversize() []string { return []string{Heavy} }

// Accounts returns the customers and their initial balances, in cents.
func Accounts() map[string]int64 {
	out := map[string]int64{Poor: 0, Student: 10_000, "ada": plenty, "bob": plenty, "eve": plenty}
	for i := range 40 {
		out[customer(i)] = plenty * 100
	}
	return out
}

func customer(i int) string { return fmt.Sprintf("customer-%02d", i) }

// Order is a request with its Idempotency-Key, and the customer's later request.
type Order struct {
	Key string
	order.Request
	Wish
}

// Wish is a customer's later request about an order.
type Wish struct {
	Address string // new address; "" keeps the address
	Cancel  bool
	After   int // number of orders to wait
}

// None reports whether there is no request.
func (w Wish) None() bool { return w.Address == "" && !w.Cancel }

// Orders returns n orders, the same for the same seed. About one in twelve cannot be paid, one in fifteen
// has a sold-out SKU, one in fifteen cannot be shipped. One in eight has a rare SKU or a customer with
// little money, so that the outcome depends on the order of processing. Every 16 orders, two or three in a
// row want the only piece of a SKU. One in twelve is cancelled, and one in twelve gets a new address (half
// of them both), immediately or some orders later.
func Orders(seed uint64, n int) []Order {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]Order, n)
	for i := range out {
		req, plain := one(r)
		out[i] = Order{Key: fmt.Sprintf("sample-%d-%d", seed, i), Request: req}
		if part := i % 16; plain && (part < 2 || part == 2 && i%32 == 2) {
			out[i].Items = append(out[i].Items, order.Line{SKU: numbered(i / 16 % prints), Quantity: 1})
		}
	}
	w := rand.New(rand.NewPCG(seed, 2))
	for i := range out {
		out[i].Wish = wish(w, i)
	}
	return out
}

func wish(r *rand.Rand, i int) (w Wish) {
	p := r.IntN(24)
	w.Cancel = p < 2
	if p > 0 && p < 3 {
		w.Address = fmt.Sprintf("%d Elm Street", i)
	}
	if !w.None() {
		w.After = r.IntN(8)
	}
	return w
}

// one returns an order; plain is true if nothing about it is special.
func one(r *rand.Rand) (req order.Request, plain bool) {
	usual := []string{"tea", "coffee", "mug", "spoon", "kettle", "honey", "jam", "biscuit"}
	req.Customer = customer(r.IntN(40))
	for _, i := range r.Perm(len(usual))[:1+r.IntN(4)] {
		req.Items = append(req.Items, order.Line{SKU: usual[i], Quantity: 1 + r.Int64N(3)})
	}
	also := func(sku string) { req.Items = append(req.Items, order.Line{SKU: sku, Quantity: 1}) }
	switch p := r.IntN(120); {
	case p < 10:
		req.Customer = Poor
	case p < 18:
		also(Sold)
	case p < 26:
		also(Heavy)
	case p < 34:
		also(Rare)
	case p < 41:
		req.Customer = Student
	default:
		plain = true
	}
	return req, plain
}
