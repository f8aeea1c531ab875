package main_test

import (
	"bytes"
	"crypto/rand"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/internal/need"
)

// A written service is one that init has written, with topics and a group of its own.
type writtenService struct {
	path string // of its program
	conn *pgx.Conn
	env  []string
	at   string // where it listens
}

// The services that init writes run together on real servers: an order that is posted twice has one saga, the
// other service does its step once, and a signal ends both with exit code 0.
func TestInitRuns(t *testing.T) {
	t.Parallel()
	for _, broker := range cli.Brokers() {
		if broker != "nats" && os.Getenv("SKALD_EXPLORE") != "all" { // nightly
			continue
		}
		t.Run(broker, func(t *testing.T) {
			run := strings.ToLower(rand.Text()[:8])
			orders := runnable(t, variant{"saga", broker}, run, "stock", "warehouse")
			warehouse := runnable(t, variant{"participant", broker}, run, "warehouse", "stock")
			one, two := launch(t, orders.path, orders.env), launch(t, warehouse.path, warehouse.env)
			for at, p := range map[string]*program{orders.at: one, warehouse.at: two} {
				ready := func() bool { return statusOf(t, "http://"+at+"/readyz") == http.StatusOK }
				p.until("/readyz", ready)
			}
			for range 2 {
				if code := post(t, "http://"+orders.at+"/orders"); code != http.StatusAccepted {
					t.Fatalf("POST: %d", code)
				}
			}
			one.until("a confirmed order", func() bool {
				return count(orders.conn, `SELECT count(*) FROM orders WHERE state = 'confirmed'`) == 1
			})
			if n := count(orders.conn, `SELECT count(*) FROM orders`); n != 1 {
				t.Errorf("%d orders", n)
			}
			if n := count(warehouse.conn, `SELECT free FROM stock`); n != 998 {
				t.Errorf("%d in stock, want 998", n)
			}
			for _, p := range []*program{one, two} {
				p.signal(syscall.SIGTERM)
				p.expect(0, "skald: stopping", "relay: stopped")
			}
		})
	}
}

// runnable writes and builds a service, and makes its database and its topics.
func runnable(t *testing.T, v variant, run, reads, writes string) writtenService {
	t.Helper()
	dir, name := filepath.Join(t.TempDir(), "svc"), v.kind+"-"+run
	start(t, nil, append([]string{"init", dir, "--module", "example.com/" + name}, v.flags()...)...).expect(0)
	for _, file := range []string{"saga.go", "service.go"} {
		path := filepath.Join(dir, file)
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue
		}
		must(t, err)
		for _, topic := range []string{reads, writes} {
			text = bytes.ReplaceAll(text, []byte(`Topic: "`+topic+`"`), []byte(`Topic: "`+topic+run+`"`))
		}
		must(t, os.WriteFile(path, text, 0o600))
	}
	goTool(t, dir, modfile(t, dir), "build", "-ldflags=-s -w", "-o", "program", ".")
	at, conn := postgres(t)
	schema, err := os.ReadFile(filepath.Join(dir, "schema.sql"))
	must(t, err)
	_, err = conn.Exec(t.Context(), string(schema))
	must(t, err)
	server, variable, url := brokerOf(t, v.broker)
	group := name
	if v.kind == "saga" {
		group += "-replies"
	}
	start(t, nil, "migrate", "--store", at, "--broker", url, "--topic", reads+run, "--group", group,
		"--partitions", "2").expect(0)
	start(t, nil, "migrate", "--broker", url, "--topic", writes+run, "--partitions", "2").expect(0)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	listen := l.Addr().String()
	must(t, l.Close())
	return writtenService{filepath.Join(dir, "program"), conn,
		[]string{"DATABASE_URL=" + at, variable + "=" + server, "LISTEN=" + listen}, listen}
}

// brokerOf returns a server as the services get it, their variable, and the server as the command gets it.
func brokerOf(t *testing.T, broker string) (server, variable, url string) {
	t.Helper()
	switch broker {
	case "nats":
		server = strings.TrimPrefix(need.NATS(t), "nats://")
		return server, "NATS", "nats://" + server + "?retain=168h"
	case "rabbitmq":
		server = strings.TrimPrefix(need.RabbitMQ(t), "amqp://")
		return server, "RABBITMQ", "amqp://" + server
	}
	server = need.Kafka(t)
	return server, "KAFKA", "kafka://" + server
}

func statusOf(t *testing.T, url string) int {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		return 0 // it does not listen yet
	}
	must(t, r.Body.Close())
	return r.StatusCode
}

func post(t *testing.T, url string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", url,
		strings.NewReader(`{"sku": "tea", "quantity": 2}`))
	must(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "key-1")
	a, err := http.DefaultClient.Do(r)
	must(t, err)
	must(t, a.Body.Close())
	return a.StatusCode
}
