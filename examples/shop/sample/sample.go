// Package sample is the shop's made-up world: goods, customers, and orders that all come out differently.
package sample

import (
	"fmt"
	"math/rand/v2"

	"github.com/skald-go/skald/examples/shop/order"
)

const plenty = 1_000_000_000

// What is special about some goods and customers.
const (
	Rare      = "teapot"    // 20 of them: whoever comes first
	Sold      = "samovar"   // always out of stock
	Heavy     = "piano"     // the carrier does not take it
	Poor      = "penniless" // has nothing
	Student   = "student"   // has 100.00: enough for a few orders
	rareStock = 20
)

// Prices are what goods cost, in cents.
func Prices() map[string]int64 {
	return map[string]int64{
		"tea": 490, "coffee": 790, "mug": 1250, "spoon": 320, "kettle": 3900, "honey": 650, "jam": 410, "biscuit": 275,
		Rare: 2400, Sold: 48000, Heavy: 890000,
	}
}

// Stock is how many pieces of each there are at first.
func Stock() map[string]int64 {
	out := map[string]int64{}
	for sku := range Prices() {
		out[sku] = plenty
	}
	out[Rare], out[Sold] = rareStock, 0
	return out
}

// Oversize are the goods that the carrier does not take.
func Oversize() []string { return []string{Heavy} }

// Accounts are the customers and what they have at first, in cents.
func Accounts() map[string]int64 {
	out := map[string]int64{Poor: 0, Student: 10_000, "ada": plenty, "bob": plenty, "eve": plenty}
	for i := range 40 {
		out[customer(i)] = plenty * 100
	}
	return out
}

func customer(i int) string { return fmt.Sprintf("customer-%02d", i) }

// An Order is a request and the Idempotency-Key to send it under.
type Order struct {
	Key string
	order.Request
}

// Orders are n orders, the same for the same seed: about one in twelve cannot be paid, one in fifteen asks for what
// is sold out, one in fifteen cannot be shipped, and one in eight is for a rare thing or from a customer who
// has not much, where it matters who comes first.
func Orders(seed uint64, n int) []Order {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]Order, n)
	for i := range out {
		out[i] = Order{Key: fmt.Sprintf("sample-%d-%d", seed, i), Request: one(r)}
	}
	return out
}

func one(r *rand.Rand) order.Request {
	usual := []string{"tea", "coffee", "mug", "spoon", "kettle", "honey", "jam", "biscuit"}
	req := order.Request{Customer: customer(r.IntN(40))}
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
	}
	return req
}
