// Outbox is the outbox table of "Choreographic Sagas with Kafka and the Outbox Pattern", and that of
// "Messaging Patterns", each as it stands, with Skald's relay in place of the article's poller. It needs a
// PostgreSQL, whose URL is its argument; the broker is in memory.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/foreign"
)

// The topic is a column, the key the aggregate; a column says what was processed.
const choreography = `{
	"table": "outbox_events", "id": "${id}", "source": "/orders", "topic": "${topic}", "key": "${aggregate_id}", "payload": "payload",
	"time": "created_at", "headers": {"aggregate_type": "${aggregate_type}"}, "order": ["created_at"], "done": {"column": "processed_at"}
}`

// As the second article's Debezium routes: the topic is made of the aggregate's type. A row is deleted once
// it is published.
const routed = `{
	"table": "outbox_events", "id": "${id}", "source": "/orders", "topic": "${aggregate_type}.events.created", "key": "${aggregate_id}",
	"payload": "payload", "order": ["created_at"], "done": {"delete": true}
}`

const patterns = `{
	"table": "outbox", "id": "${id}", "source": "/orders", "topic": "${topic}", "key": "${key}", "payload": "payload",
	"time": "created_at", "order": ["created_at"], "done": {"column": "published_at"}
}`

const tables = `
CREATE TEMPORARY TABLE outbox_events (id uuid PRIMARY KEY, aggregate_id uuid NOT NULL, aggregate_type varchar(255) NOT NULL,
	topic varchar(255) NOT NULL, payload jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), processed_at timestamptz);
CREATE INDEX ON outbox_events (created_at) WHERE processed_at IS NULL;
CREATE TEMPORARY TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), topic text NOT NULL, key text, payload jsonb NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now(), published_at timestamptz);
INSERT INTO outbox_events VALUES (gen_random_uuid(), '7a4f6f0e-0000-4000-8000-000000000001', 'Order', 'order.events.created', '{"total": 5}');
INSERT INTO outbox (topic, key, payload) VALUES ('orders', '42', '{"event": "order.created"}'), ('orders', '42', '{"event": "order.paid"}');`

func main() {
	if len(os.Args) != 2 {
		log.Fatal("give the URL of a PostgreSQL: outbox postgres://…")
	}
	if err := run(context.Background(), os.Args[1], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, at string, out io.Writer) error {
	db, err := sql.Open("pgx", at)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // the tables are this connection's
	if _, err := db.ExecContext(ctx, tables); err != nil {
		return err
	}
	bus := membroker.New(nil)
	topics := []string{"order.events.created", "Order.events.created", "orders"}
	if err := bus.MakeTopics(ctx, 1, topics...); err != nil {
		return err
	}
	for _, columns := range []string{choreography, patterns, routed} {
		table, err := foreign.Read(strings.NewReader(columns))
		if err != nil {
			return err
		}
		relay := foreign.New(db, table, bus, &foreign.Options{Logger: slog.New(slog.DiscardHandler)})
		for busy := true; busy; { // a service runs it beside others: skald.Run(ctx, relay)
			if busy, err = relay.Step(ctx); err != nil {
				return err
			}
		}
		if columns == choreography { // the same row once more, for the second way
			if _, err := db.ExecContext(ctx, "UPDATE outbox_events SET processed_at = NULL"); err != nil {
				return err
			}
		}
	}
	return show(ctx, bus, topics, out)
}

func show(ctx context.Context, bus *membroker.Broker, topics []string, out io.Writer) error {
	for _, topic := range topics {
		sub, err := bus.Subscribe(ctx, broker.Group{Name: "reader of " + topic, Topics: []string{topic}})
		if err != nil {
			return err
		}
		for {
			batch, err := sub.Receive(ctx, 100)
			if err != nil {
				return err
			}
			if len(batch.Deliveries) == 0 {
				break
			}
			for _, d := range batch.Deliveries {
				fmt.Fprintf(out, "%s, key %s, type %s: %s\n", d.Topic, d.Key, d.Type, d.Data)
			}
		}
	}
	return nil
}
