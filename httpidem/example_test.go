package httpidem_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/store/memstore"
)

type booking struct{ Seat string }

// A client that repeats its request gets the same answer. One commit has the rows and the answer.
func ExampleHandle() {
	db := memstore.New(nil)
	book := func(_ context.Context, tx *memstore.Tx,
		q httpidem.Request[booking]) (httpidem.Reply[booking], error) {
		if q.Body.Seat == "" {
			return httpidem.Reply[booking]{}, httpidem.Refuse(http.StatusUnprocessableEntity, "name a seat")
		}
		return httpidem.Created(q.Body, "/bookings/"+q.Body.Seat), tx.Put("seat "+q.Body.Seat, "booked")
	}
	endpoint := httpidem.Handle(db, "bookings", httpidem.OneTenant, nil, book)
	for range 2 {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/bookings", strings.NewReader(`{"Seat": "4A"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(httpidem.KeyHeader, "key-1")
		endpoint.ServeHTTP(w, r)
		fmt.Printf("%d %s %q\n", w.Code, w.Header().Get("Location"), w.Header().Get(httpidem.ReplayedHeader))
	}
	fmt.Println(db.User())
	// Output:
	// 201 /bookings/4A ""
	// 201 /bookings/4A "true"
	// map[seat 4A:booked]
}
