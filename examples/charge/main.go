// Charge asks a payment gateway for the money of each order, once, and stores the receipt.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store/pgstore"
)

type Order struct {
	ID, SKU  string
	Quantity int
}

var (
	OrderPlaced     = skald.Event[Order]{Topic: "orders", Type: "order.placed"}
	PaymentDeclined = skald.Event[Order]{Topic: "payments", Type: "payment.declined"}
)

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	bus, err := kafkabroker.New(os.Getenv("KAFKA"), nil)
	check(err)

	db := pgstore.New(pool, nil)
	in := inbox.New(db, bus, "billing", nil)
	inbox.OnCall(in, OrderPlaced, call.Call[pgx.Tx, Order, string, string]{
		At: call.NewProvider("gateway", nil),
		Intent: func(_ context.Context, _ pgx.Tx, m skald.Received[Order]) (string, string, error) {
			// cents, and the key: committed first
			return fmt.Sprint(250 * m.Value.Quantity), "charge-" + m.Value.ID, nil
		},
		Do: charge, // outside of any transaction; asked again under the same key until there is an answer
		Settle: func(ctx context.Context, tx pgx.Tx, m skald.Received[Order], o call.Outcome[string]) error {
			if o.Refused { // rolls back, records the verdict, publishes the event
				return skald.Reject(errors.New(o.Reason), PaymentDeclined.New(m.Value.ID, m.Value))
			}
			_, err := tx.Exec(ctx, `INSERT INTO receipts (order_id, receipt) VALUES ($1, $2)`,
				m.Value.ID, o.Value)
			return err
		},
	})
	check(skald.RunUntilSignal(ctx, in, relay.New(db, bus, nil)))
}

// charge asks the gateway, which knows a key again and gives the same receipt for it.
func charge(ctx context.Context, cents, key string) (receipt string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, os.Getenv("GATEWAY")+"/charges",
		strings.NewReader(cents))
	if err != nil {
		return "", err
	}
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	switch {
	case err != nil:
		return "", err
	case resp.StatusCode == http.StatusPaymentRequired: // the gateway's final no
		return "", skald.Reject(errors.New(string(body)))
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("the gateway answers %s", resp.Status)
	}
	return string(body), nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
