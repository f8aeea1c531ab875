// Keys is the idempotency service of "Idempotent Sagas: Exactly-Once Processing": an endpoint with a key
// store that knows what is in progress, what was answered and what was refused for good. It runs by itself,
// on a database in memory.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/store/memstore"
)

type Payment struct {
	Customer string
	Cents    int
}

func main() {
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(out io.Writer) error {
	db, charges := memstore.New(nil), 0
	// What the handler writes, and the answer under the key, are one commit. In a service: its PostgreSQL,
	// and pgx.Tx.
	payments := httpidem.Handle(db, "payments", tenant,
		&httpidem.Options{Wait: -1, Logger: slog.New(slog.DiscardHandler)},
		func(_ context.Context, tx *memstore.Tx, q httpidem.Request[Payment]) (httpidem.Reply[string],
			error) {
			if q.Body.Cents > 100 {
				// terminal: stored, never tried again
				return httpidem.Reply[string]{}, httpidem.Refuse(http.StatusPaymentRequired, "declined")
			}
			charges++
			return httpidem.Created("receipt", "/payments/1"), tx.Put("charged", q.Body.Customer)
		})
	for _, p := range []struct{ what, shop, key, body string }{
		{"a payment", "tea", "k-1", `{"Customer":"ada","Cents":80}`},
		{"the client saw no answer", "tea", "k-1", `{"Customer":"ada","Cents":80}`},
		{"another payload, the same key", "tea", "k-1", `{"Customer":"ada","Cents":90}`},
		{"another tenant, the same key", "coffee", "k-1", `{"Customer":"bob","Cents":80}`},
		{"too much", "tea", "k-2", `{"Customer":"ada","Cents":900}`},
		{"too much, again", "tea", "k-2", `{"Customer":"ada","Cents":900}`},
		{"no key", "tea", "", `{"Customer":"ada","Cents":80}`},
	} {
		r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(p.body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Shop", p.shop)
		if p.key != "" {
			r.Header.Set("Idempotency-Key", p.key)
		}
		w := httptest.NewRecorder()
		payments.ServeHTTP(w, r)
		if _, err := fmt.Fprintf(out, "%-30s %d replayed=%t, charged %d times\n", p.what+":", w.Code,
			w.Header().Get(httpidem.ReplayedHeader) != "", charges); err != nil {
			return err
		}
	}
	return nil
}

// tenant is what authentication found, in a service.
func tenant(r *http.Request) (string, error) { return r.Header.Get("X-Shop"), nil }
