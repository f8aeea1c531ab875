package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/examples/shop/sample"
)

// A service that took the order, but whose answer does not come in time, is asked again with the same key and
// the same body.
func TestLoadAsksAgain(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		asked = append(asked, r.Header.Get("Idempotency-Key")+" "+string(body))
		n := len(asked)
		mu.Unlock()
		if n < 3 {
			<-r.Context().Done()
			return
		}
		_ = json.NewEncoder(w).Encode(order.Summary{Order: event.Order{ID: "one"}})
	}))
	defer server.Close()
	l := &loading{url: server.URL, http: &http.Client{Timeout: 100 * time.Millisecond}}
	id, err := l.place(t.Context(), sample.Orders(1, 1)[0])
	for n := 0; err != nil && n < 20; n++ { // on a slow machine the third answer may be late as well
		id, err = l.place(t.Context(), sample.Orders(1, 1)[0])
	}
	server.Close() // this ends the late requests
	if err != nil || id != "one" || len(asked) < 3 {
		t.Fatalf("%q after %d requests: %v", id, len(asked), err)
	}
	for _, a := range asked {
		if a != asked[0] {
			t.Errorf("asked for %s and %s", asked[0], a)
		}
	}
}
