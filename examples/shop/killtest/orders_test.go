package killtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/examples/shop/sample"
)

// customers place orders at any instance of the Order service that answers. They do not give up, and
// sometimes repeat an earlier order.
type customers struct {
	w     *world
	http  *http.Client
	again int  // every again-th order is requested twice
	wish  bool // they also change and cancel orders; requires that both builds support it

	student bool // one customer in five has little money, and soon none

	mu       sync.Mutex
	placed   map[string]string // key → id
	repeated int
}

func newCustomers(w *world) *customers {
	return &customers{w: w, http: &http.Client{Timeout: 3 * time.Second}, again: 10,
		placed: map[string]string{}}
}

// place places the orders of the channel concurrently, until it is closed.
func (c *customers) place(ctx context.Context, orders <-chan sample.Order) {
	var wg sync.WaitGroup
	for n := range 6 {
		wg.Go(func() {
			later := sample.Later{Do: func(id string, w sample.Wish) { c.wishes(ctx, id, w, n) }}
			for o := range orders {
				n++
				id := c.insist(ctx, o, n)
				if n%c.again == 0 {
					c.insist(ctx, o, n+1)
				}
				if c.wish && id != "" {
					later.Placed(id, o.Wish)
				}
			}
			later.Rest()
		})
	}
	wg.Wait()
}

// insist sends o until it is answered. Several tries may have succeeded: the answer is the same order.
func (c *customers) insist(ctx context.Context, o sample.Order, from int) string {
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for try := from; ; try++ {
		id, code, err := c.send(ctx, o, try)
		switch {
		case err == nil:
			c.keep(o.Key, id, code)
			return id
		case ctx.Err() != nil: // the test is over, and has reported the reason if it failed
			return ""
		case code >= 400 && code < 500:
			c.w.t.Errorf("place order %s: %v", o.Key, err)
			return ""
		}
		<-pause.C
	}
}

// wishes sends the later requests of a customer until they are answered. "Too late" is an answer.
func (c *customers) wishes(ctx context.Context, id string, w sample.Wish, from int) {
	if w.Address != "" {
		c.demand(ctx, http.MethodPut, "/orders/"+id+"/address", fmt.Sprintf(`{"address":%q}`, w.Address),
			from)
	}
	if w.Cancel {
		c.demand(ctx, http.MethodPost, "/orders/"+id+"/cancel", "", from)
	}
}

func (c *customers) demand(ctx context.Context, method, path, body string, from int) {
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for try := from; ; try++ {
		code, err := c.demandAt(ctx, try, method, path, body)
		switch {
		case err == nil && (code < 300 || code == http.StatusConflict):
			return
		case ctx.Err() != nil: // as above
			return
		case err == nil && code < 500:
			c.w.t.Errorf("%s %s: %d %v", method, path, code, err)
			return
		}
		<-pause.C
	}
}

func (c *customers) demandAt(ctx context.Context, try int, method, path, body string) (code int, err error) {
	shops := c.w.of("order")
	url := shops[try%len(shops)].address()
	if url == "" {
		return 0, fmt.Errorf("nobody is there")
	}
	req, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

func (c *customers) send(ctx context.Context, o sample.Order, try int) (id string, code int, err error) {
	shops := c.w.of("order")
	url := shops[try%len(shops)].address()
	if url == "" {
		return "", 0, fmt.Errorf("nobody is there")
	}
	body, err := json.Marshal(o.Request)
	if err != nil {
		return "", 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/orders", bytes.NewReader(body))
	if err != nil {
		return "", 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", o.Key)
	resp, err := c.http.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return "", 0, err
	}
	if resp.StatusCode >= 300 {
		return "", resp.StatusCode, fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(text))
	}
	var got order.Summary
	if err := json.Unmarshal(text, &got); err != nil || got.ID == "" {
		return "", 0, fmt.Errorf("answer %q: %w", text, err)
	}
	return got.ID, resp.StatusCode, nil
}

func (c *customers) keep(key, id string, code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have, ok := c.placed[key]
	switch {
	case !ok:
		c.placed[key] = id
	case have != id:
		c.w.t.Errorf("order %s was answered as %s and as %s", key, have, id)
	case code != http.StatusCreated:
		c.w.t.Errorf("order %s was answered by %d the second time", key, code)
	default:
		c.repeated++
	}
}

func (c *customers) ids() (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.placed {
		out = append(out, id)
	}
	return out
}
