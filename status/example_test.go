package status_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/status"
	"github.com/skald-go/skald/store/memstore"
)

// The handler answers for each business key. The saga of this order has not begun, because no engine runs.
func ExampleHandler() {
	db := memstore.New(nil)
	ship := saga.Exec("ship", func(context.Context, *memstore.Tx, saga.Run[string]) error { return nil }, nil,
		saga.Pivot())
	definition := saga.New("order", &saga.Options[string]{Key: func(id string) string { return id }}, ship)
	engine, err := saga.NewEngine(db, nil, definition)
	tx := db.BeginTx()
	_, failed := saga.Bind(engine, definition).Start(context.Background(), tx, "o-1")
	fmt.Println(errors.Join(err, failed, tx.Commit()))

	answers, err := status.Handler(db, &status.Options{Service: "orders",
		Auth: func(h http.Handler) http.Handler { return h }}) // any client may ask
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/status/", http.StripPrefix("/status", answers))
	for _, key := range []string{"o-1", "o-2"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "/status/"+key, nil))
		fmt.Println(w.Code, strings.Contains(w.Body.String(), `"state":"running"`))
	}
	// Output:
	// <nil>
	// 200 true
	// 404 false
}

// A customer gets the team's word for a state, at the team's own route.
func ExampleCustomer() {
	db := memstore.New(nil)
	ship := saga.Exec("ship", func(context.Context, *memstore.Tx, saga.Run[string]) error { return nil }, nil,
		saga.Pivot())
	definition := saga.New("subscription", &saga.Options[string]{Key: func(id string) string { return id }},
		ship)
	engine, err := saga.NewEngine(db, nil, definition)
	tx := db.BeginTx()
	_, failed := saga.Bind(engine, definition).Start(context.Background(), tx, "s-1")
	fmt.Println(errors.Join(err, failed, tx.Commit()))

	owner := map[string]string{"s-1": "ann"}
	keyOf := func(r *http.Request) string {
		if id := r.PathValue("id"); owner[id] == r.Header.Get("X-User") { // your login
			return id
		}
		return "" // 404
	}
	mux := http.NewServeMux()
	mux.Handle("GET /subscriptions/{id}/status", status.Customer(db, keyOf, &status.CustomerOptions{
		State: func(s *operate.SagaProgress) string {
			if s.State == "running" {
				return "we prepare your subscription"
			}
			return "" // the default: completed, cancelling, cancelled
		},
	}))
	for _, user := range []string{"ann", "bob"} {
		r := httptest.NewRequest("GET", "/subscriptions/s-1/status", nil)
		r.Header.Set("X-User", user)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		var p status.Progress
		_ = json.Unmarshal(w.Body.Bytes(), &p) // the refusal is text
		fmt.Println(w.Code, p.State)
	}
	// Output:
	// <nil>
	// 200 we prepare your subscription
	// 404
}
