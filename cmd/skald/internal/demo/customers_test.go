package demo

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"

	"github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/httpidem"
)

// A counter is an Order service that fails at the first post of each key, and is always too late for wishes.
type counter struct {
	mu          sync.Mutex
	asked       map[string]int
	notes, late int
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := r.Header.Get(httpidem.KeyHeader)
	if c.asked[key]++; c.asked[key] == 1 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write([]byte(`{"id": "of ` + key + `"}`))
}

func (c *counter) Note(context.Context, string, int, string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes++
	return nil
}

func (c *counter) Change(context.Context, string, string) (bool, error) { return c.tooLate() }
func (c *counter) Cancel(context.Context, string) (bool, error)         { return c.tooLate() }

func (c *counter) tooLate() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late++
	return false, order.ErrTooLate
}

// Customers ask until each post of each order is answered, note the answers, and take "too late" for one.
func TestCustomersAskUntilTheyAreAnswered(t *testing.T) {
	const orders = 60
	shop := &counter{asked: map[string]int{}}
	placed := map[string]bool{}
	c := &shoppers{Door: shop, Wishes: shop, Logger: slog.New(slog.DiscardHandler),
		Placed: func(_ context.Context, id string, _ int) {
			shop.mu.Lock()
			defer shop.mu.Unlock()
			placed[id] = true
		}}
	c.Load(t.Context(), 1, orders)
	for key, n := range shop.asked {
		if n != posts+1 || !placed["of "+key] {
			t.Errorf("%s was asked for %d times; placed: %t", key, n, placed["of "+key])
		}
	}
	if len(placed) != orders || shop.notes != posts*orders || shop.late == 0 {
		t.Errorf("%d orders are placed, %d answers noted, %d wishes were too late", len(placed), shop.notes,
			shop.late)
	}
}
